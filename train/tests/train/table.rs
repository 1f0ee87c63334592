//! The table of derivatives: each rule agrees with differences, and a wrong rule does not.

use ovolo::Registry;
use ovolo::rule::Rule;
use ovolo_proof::verify::{self, Derivative, Settings};
use ovolo_train::Table;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Fewer instances than rules get, since each takes some fifty evaluations.
const SETTINGS: Settings = Settings { instances: 100, tries: 1500, seed: 0, shrink: false };

/// The shipped table.
const TEXT: &str = include_str!("../../ops/gradients.ron");

/// Calls a function for each element on two threads, and returns the results in order.
fn each<T: Sync, R: Send>(all: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, one)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| all.get(at).map(|one| (at, one)))
                {
                    let result = make(one);
                    found.lock().unwrap().push((at, result));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

fn table(text: &str) -> Result<Table, String> {
    Table::read(&Registry::new(), &[("gradients.ron", text)]).map_err(|why| why.to_string())
}

#[test]
fn every_derivative_agrees_with_differences() {
    let table = table(TEXT).unwrap_or_else(|why| panic!("{why}"));
    let found = each(table.rules(), |rule| verify::derivative(rule, SETTINGS));
    let wrong: Vec<&Derivative> = found.iter().filter(|one| !one.holds(SETTINGS)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (rules, elements) = (found.len(), found.iter().map(|one| one.elements).sum::<usize>());
    let worst = found.iter().map(|one| one.worst).fold(0.0, f64::max);
    println!("{rules} rules, {elements} elements, relative difference at most {worst:.1e}");
}

/// Changes of a text that make a rule wrong wherever it is about what they change.
const CHANGES: &[(&str, &str)] = &[
    ("(neg ?d)", "?d"),
    ("(neg", "(abs"),
    ("(mul", "(add"),
    ("(sub", "(add"),
    ("(div", "(mul"),
    ("(reciprocal", "(sqrt"),
    ("(reduce-mean", "(reduce-sum"),
    ("div(1.0,", "mul(1.0,"),
    ("?d ?y)", "?d ?x)"),
    ("?c ?d 0.0", "?c 0.0 ?d"),
    ("?c 0.0 ?d", "?c ?d 0.0"),
    ("(transpose ?y {perm: matrices-turned(?y)})", "?y"),
    (
        "{strides: ?s, pads: ?p, dilations: ?l, groups: ?g,\n",
        "{strides: ?l, pads: ?p, dilations: ?s, groups: ?g,\n",
    ),
    (
        "{strides: ?l, pads: ?p, dilations: ?s, groups: ?g}",
        "{strides: ?s, pads: ?p, dilations: ?l, groups: ?g}",
    ),
    ("{perm: [2,1,0,3,4]}", "{perm: [0,1,2,3,4]}"),
    ("sub(dim(?w, 2), 1)", "dim(?w, 2)"),
    ("{axes: [0,2,3], keepdims: 0}", "{axes: [1,2,3], keepdims: 0}"),
    ("reduction: \"add\"", "reduction: \"none\""),
    ("operand: 0", "operand: 1"),
    ("(softmax ?x", "(log-softmax ?x"),
    ("-0.5", "0.5"),
    ("-1.5", "-0.5"),
    ("inverse-of(?p)", "?p"),
    ("sub(1, ?r)", "?r"),
    ("size-along(?b, ?a)", "size-along(?e, ?a)"),
    ("range(2, rank", "range(1, rank"),
    ("exclusive: ?e, reverse: sub", "exclusive: 0, reverse: sub"),
    ("around(?b, ?n,", "around(zeros(rank-of(?x)), ?n,"),
    ("permute(?p, range(0, rank-of(?x)))", "permute(?p, range(rank-of(?x), mul(2, rank-of(?x))))"),
    ("(log ?x)", "(log ?y)"),
    ("\"pads\": \"list(0, 0,", "\"pads\": \"list(1, 1,"),
];

/// Changes that change no derivative: how often each of them makes a rule that is still right, and why.
const EQUIVALENT: &[(&str, &str, usize)] = &[
    // The bias does not use the shape that is computed for all operands.
    ("gradient-batch-norm-bias", "(sub", 1),
    // The mean of (x - m)(x + c) is the variance for any constant c, in each of both factors of the variance.
    ("gradient-layer-norm-image", "(sub", 4),
    ("gradient-instance-norm-image", "(sub", 4),
    ("gradient-layer-norm-scale", "(sub", 2),
    ("gradient-instance-norm-scale", "(sub", 2),
    ("gradient-layer-norm-image", "(reduce-mean", 4),
    ("gradient-instance-norm-image", "(reduce-mean", 4),
    ("gradient-layer-norm-scale", "(reduce-mean", 2),
    ("gradient-instance-norm-scale", "(reduce-mean", 2),
    // The share of several largest elements: there the function has a corner.
    ("gradient-reduce-max", "(div", 1),
    ("gradient-reduce-min", "(div", 1),
    // Twice no padding is no padding, and other shapes do not fit. Of one channel, both lists have the same product.
    ("gradient-lrn", "(div", 1),
    ("gradient-lrn", "range(2, rank", 1),
];

#[test]
fn wrong_derivatives_are_found() {
    let shipped = table(TEXT).unwrap_or_else(|why| panic!("{why}"));
    let mut mutants: Vec<(&str, Arc<Rule>)> = Vec::new();
    for (from, to) in CHANGES {
        let places: Vec<usize> = TEXT.match_indices(from).map(|(at, _)| at).collect();
        assert!(!places.is_empty(), "`{from}` stands nowhere in the table");
        for at in places {
            let text = format!("{}{to}{}", &TEXT[..at], &TEXT[at + from.len()..]);
            // A change of a left side may leave a variable without a value.
            let Ok(changed) = table(&text) else { continue };
            for (rule, before) in changed.rules().iter().zip(shipped.rules()) {
                let same = rule.to == before.to && rule.lets == before.lets;
                if !same {
                    mutants.push((from, Arc::clone(rule)));
                }
            }
        }
    }
    let found = each(&mutants, |(_, rule)| verify::derivative(rule, SETTINGS));
    let mut missed: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for ((change, rule), _) in
        mutants.iter().zip(&found).filter(|(_, one)| one.wrong.is_none() && one.instances > 0)
    {
        *missed.entry((&rule.name, change)).or_default() += 1;
    }
    println!(
        "{} of {} changed derivatives are wrong",
        found.len() - missed.values().sum::<usize>(),
        found.len()
    );
    let equivalent = EQUIVALENT.iter().map(|(rule, change, count)| ((*rule, *change), *count));
    assert_eq!(missed, equivalent.collect());
}

#[test]
fn mistakes_of_a_table_are_told() {
    let mistakes = [
        ("(relu ?x)", "?x", "is no derivative"),
        ("(gradient ?x (relu ?x) ?x)", "?x", "is no derivative"),
        ("(gradient ?x (relu (neg ?x)) ?d)", "?d", "is no derivative"),
        ("(gradient ?x (relu ?x) ?d)", "?y", "?y"),
    ];
    for (from, to, told) in mistakes {
        let text = format!("[Rule(name: \"wrong\", from: \"{from}\", to: \"{to}\")]");
        let why = table(&text).map(|_| ()).unwrap_err();
        assert!(why.contains(told), "{from}: {why}");
    }
}

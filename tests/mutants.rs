//! Mutation test of `rules verify`: rules made wrong in one small place must be caught.
#![allow(clippy::unwrap_used)]

#[path = "mutants/make.rs"]
mod make;

use make::Mutant;
use ovolo::audit::verify::{self, Settings, Verdict};
use ovolo::rule::{Rule, RuleSet, SHIPPED};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

/// Mutants that are not caught, and why they are no wrong rules.
const EQUIVALENT: &[(&str, &str)] = &[
    ("merge-convs: left 0: any dilations of conv", "a window of one element has nothing to dilate"),
    ("merge-convs: left 1: any dilations of conv", "as above"),
    (
        "merge-convs: left 0: any groups of conv",
        "with weights of one type, the other convolution, of one group, says how many channels the input has",
    ),
    ("merge-convs: left 1: any groups of conv", "as above"),
    (
        "divide-by-multiplying: without scalar(?s)",
        "true of any divisor; the guard keeps large constants from being inverted",
    ),
    ("join-scales: without scalar(?s)", "multiplication is associative; the guard is for cost"),
    ("join-scales: without scalar(?t)", "multiplication is associative; the guard is for cost"),
    (
        "merge-convs: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
        "typed only for one column, whose step is not taken",
    ),
    ("merge-convs: right 1: steps of slice: [1,1,1,1] is [1,1,1,2]", "as above"),
    (
        "merge-matmuls: without equal(product(shape-of(?x)), dim(?x, -1))",
        "true of many rows as well; of one row the slices are views",
    ),
    ("pack-first-conv-nChw8c: left 0: any groups of conv", "the op takes one group and refuses others"),
    (
        "widen-groups-8: without less(1, dim(?w, 1))",
        "widening is exact whatever the groups; the guards are for cost",
    ),
    ("widen-groups-8: without less(dim(?w, 1), 8)", "as above"),
    (
        "widen-groups-8: without divisible(8, dim(?w, 1))",
        "as above, where the groups do not divide the op refuses",
    ),
    (
        "widen-groups-8: without divisible(div(mul(dim(?w, 0), 8), dim(?x, 1)), 8)",
        "as above: the kernel wants whole blocks",
    ),
    ("lower-add-native: right 0: operands 0 and 1 of native.add swapped", "addition is commutative"),
    ("map-add: right 0: operands 0 and 1 of map swapped", "addition is commutative"),
    (
        "winograd-4-nChw8c: left 0: any groups of conv",
        "of several groups the weights have too few channels for the input, and typing refuses them",
    ),
    (
        "onednn-conv-nhwc-Ohwi64o: right 0: no pack",
        "the op takes operands in any layout: which of them have a kernel, the library says",
    ),
    ("onednn-conv-nhwc-Ohwi64o: right 0: no pack (2)", "as above"),
    ("onednn-depthwise-conv-nhwc: right 0: no pack", "as above"),
    ("onednn-depthwise-conv-nhwc: right 0: no pack (2)", "as above"),
    (
        "onednn-depthwise-conv-nhwc: without equal(?g, dim(?w, 0))",
        "true of any convolution: it keeps candidates away that have no kernel",
    ),
    ("onednn-depthwise-conv-nhwc: without equal(?g, dim(?x, 1))", "as above"),
    ("onednn-first-conv-nChw8c: left 0: any groups of conv", "as above"),
    (
        "onednn-first-conv-nChw8c: right 0: no pack",
        "the op takes operands in any layout: which of them have a kernel, the library says",
    ),
    (
        "onednn-first-conv-nChw8c: without at-most(dim(?x, 1), 4)",
        "true of any convolution: it keeps candidates away that have no kernel",
    ),
    (
        "onednn-matmul-packed: right 0: no pack",
        "the op takes operands in any layout: which of them have a kernel, the library says",
    ),
    ("onednn-narrow-conv: right 0: no pack", "as above"),
    ("onednn-narrow-conv: right 0: no pack (2)", "as above"),
    (
        "onednn-narrow-conv: without equal(dim(?w, 1), 4)",
        "true of any convolution: it keeps candidates away that have no kernel",
    ),
    ("onednn-narrow-conv: without less(4, dim(?x, 1))", "as above"),
    (
        "onednn-sum-in-place: left 0: any sum of onednn.conv",
        "it says where an operand lies, not what is computed",
    ),
    ("onednn-sum-in-place: right 0: sum of onednn.conv dropped", "as above"),
    ("onednn-sum-in-place: right 0: sum of onednn.conv: 1 is 0", "as above"),
];

/// Of each rule that is written out for several rows, the last, where the ops are not commutative;
/// and the first where rows are of different ops, and not of different layouts.
fn subjects() -> Vec<Arc<Rule>> {
    let set = RuleSet::read(SHIPPED).unwrap();
    let rules = set.rules();
    let place = |rule: &Rule| (rule.file.clone(), rule.line);
    let last = |at: usize| at + 1 == rules.len() || place(&rules[at + 1]) != place(&rules[at]);
    let first = |at: usize| at == 0 || place(&rules[at - 1]) != place(&rules[at]);
    // The superoptimisers' equalities are verified like all others, and not mutated here yet: their
    // guards are mostly about worth, and which mutants are equivalent is still to be worked out.
    let ours = |at: &usize| !["taso", "taso-multi"].contains(&rules[*at].stem());
    let wanted =
        |at: &usize| ours(at) && (last(*at) || first(*at) && ["fuse", "native"].contains(&rules[*at].stem()));
    (0..rules.len()).filter(wanted).map(|at| Arc::clone(&rules[at])).collect()
}

#[test]
fn unsound_mutants_are_caught_and_survivors_are_equivalent() {
    let settings = Settings { instances: 120, tries: 300, seed: 0 };
    let screening = Settings { instances: 60, ..settings };
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut unchanged = 0;
    for rule in subjects() {
        for mutant in make::mutants(&rule) {
            // Set aside where typing refuses all that the change lets through: the same rule.
            if mutant.left_is_kept && verify::change(&rule, &mutant.rule, screening).is_none() {
                unchanged += 1;
            } else {
                mutants.push(mutant);
            }
        }
    }
    assert!(mutants.len() >= 60, "{} mutants", mutants.len());
    // A mutant's name is its rule's, so that each draws instances of its own.
    let rules: Vec<Arc<Rule>> = mutants
        .iter()
        .map(|mutant| {
            // Generated instances must catch it, not the examples that the rule has.
            Arc::new(Rule { name: mutant.name.clone(), examples: Vec::new(), ..mutant.rule.clone() })
        })
        .collect();
    let all = verify::rules(&rules, settings, 2, &|_| ());
    let (mut by_value, mut by_coverage) = (0, 0);
    let mut survivors = BTreeSet::new();
    for one in &all {
        match &one.verdict {
            Verdict::Holds => drop(survivors.insert(one.rule.as_str())),
            Verdict::Wrong { .. } => by_value += 1,
            Verdict::Uncovered { .. } => by_coverage += 1,
        }
    }
    let caught = by_value + by_coverage;
    println!(
        "{} mutants ({unchanged} more are the same rule by typing): {by_value} caught by a counter-example, \
         {by_coverage} by lack of instances, {} equivalent",
        all.len(),
        survivors.len()
    );
    let mut wrong = String::new();
    for survivor in &survivors {
        if !EQUIVALENT.iter().any(|(name, _)| name == survivor) {
            let _ = writeln!(wrong, "survives, and is not listed: {survivor}");
        }
    }
    for (name, _) in EQUIVALENT {
        if !survivors.contains(name) {
            let _ = writeln!(wrong, "is listed, and does not survive: {name}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // The others are equivalent, each with its reason; rules to ops that take any layout have more of them.
    assert!(caught * 100 >= all.len() * 90, "{caught} of {} are caught", all.len());
}

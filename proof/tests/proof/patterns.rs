//! Tests what patterns match: rests at any position, optional operands, and numbers in a range.
#![allow(clippy::unwrap_used)]

use ovolo::egraph::{EGraph, Probe, WhyNot};
use ovolo::graph::text;
use ovolo::rule::print::Names;
use ovolo::rule::{Rule, RuleSet};
use ovolo::verify::verify;
use ovolo_proof::example::compact;
use ovolo_proof::verify::{self, Settings};
use std::sync::Arc;

fn rule(body: &str) -> Arc<Rule> {
    let text = format!("[Rule(name: \"a-rule\", {body})]");
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", &text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    Arc::clone(&set.rules()[0])
}

fn egraph(graph: &str) -> EGraph {
    let graph = text::parse(crate::common::ops(), &format!("graph {{\n{graph}\n}}"))
        .unwrap_or_else(|errors| panic!("{errors}"));
    EGraph::new(&verify(graph).unwrap())
}

fn matches(graph: &str, from: &str) -> usize {
    // Each place is reported once. Refused matches are counted, and this right side has no type, so all are
    // refused.
    let rule = rule(&format!("from: \"{from}\", to: \"(matmul 0.0 0.0)\""));
    match egraph(graph).why_not(&rule, None).unwrap() {
        WhyNot::Refused { times, .. } => times,
        other => {
            assert!(!matches!(other, WhyNot::Fires(_) | WhyNot::Waits(_)), "{other:?}");
            0
        }
    }
}

/// The graph after the rule was applied.
fn after(graph: &str, body: &str) -> String {
    match egraph(graph).probe(&rule(body)) {
        Probe::Fires(graph) => compact(&graph).replace('\n', "; "),
        other => panic!("{other:?}"),
    }
}

const FOUR: &str = "a: f32[2,3] = input; b: f32[2,4] = input; c: f32[2,5] = input; d: f32[2,6] = input; \
                    y = concat(a, b, c, d) {axis: 1}; return y";

#[test]
fn a_rest_at_any_position_matches_every_split_of_the_operands() {
    assert_eq!(matches(FOUR, "(concat ?x ?r.. {axis: 1})"), 1);
    assert_eq!(matches(FOUR, "(concat ?r.. ?x {axis: 1})"), 1);
    assert_eq!(matches(FOUR, "(concat ?r.. ?x ?s.. {axis: 1})"), 4);
    assert_eq!(matches(FOUR, "(concat ?r.. ?s.. {axis: 1})"), 5);
    assert_eq!(matches(FOUR, "(concat ?r.. ?x ?s.. ?y ?t.. {axis: 1})"), 6);
    // The same rest twice, and more patterns than operands.
    assert_eq!(matches(FOUR, "(concat ?r.. ?r.. {axis: 1})"), 0);
    assert_eq!(matches(FOUR, "(concat ?v ?w ?x ?y ?z ?r.. {axis: 1})"), 0);
    let twice = "a: f32[2,3] = input; b: f32[2,4] = input; y = concat(a, b, a, b) {axis: 1}; return y";
    assert_eq!(matches(twice, "(concat ?r.. ?r.. {axis: 1})"), 1);
    assert_eq!(matches(twice, "(concat ?r.. ?x ?s.. ?x ?t.. {axis: 1})"), 2);
    let moved = after(FOUR, "from: \"(concat ?r.. ?x {axis: 1})\", to: \"(concat ?x ?r.. {axis: 1})\"");
    assert_eq!(moved, "y = concat(d, a, b, c) {axis: 1}");
}

const PLAIN: &str = "q: f32[1,2,3,4] = input; k: f32[1,2,5,4] = input; v: f32[1,2,5,4] = input; \
                     y = attention(q, k, v) {scale: 0.5}; return y";
const MASKED: &str = "q: f32[1,2,3,4] = input; k: f32[1,2,5,4] = input; v: f32[1,2,5,4] = input; \
                      m: f32[3,5] = input; y = attention(q, k, v, m) {scale: 0.5}; return y";

#[test]
fn an_optional_operand_is_kept_where_it_is_present() {
    let body = "from: \"(attention ?q ?k ?v ?m? {*a})\", to: \"(attention (neg ?q) (neg ?k) ?v ?m? {*a})\"";
    assert_eq!(
        after(PLAIN, body),
        "q.neg = neg(q); k.neg = neg(k); y = attention(q.neg, k.neg, v) {scale: 0.5}"
    );
    assert!(after(MASKED, body).ends_with("y = attention(q.neg, k.neg, v, m) {scale: 0.5}"));
    let body =
        "from: \"(attention ?q ?k ?v ?m? {*a})\", to: \"(attention ?q ?k ?v (each ?m? ?i (neg ?i)) {*a})\"";
    assert!(after(MASKED, body).starts_with("m.neg = neg(m);"));
    assert!(matches!(egraph(PLAIN).probe(&rule(body)), Probe::NoEffect));
}

#[test]
fn a_guard_on_an_absent_operand_is_not_evaluated() {
    let body = |guard: &str| {
        rule(&format!(
            "from: \"(attention ?q ?k ?v ?m? {{*a}})\", to: \"(attention (neg ?q) (neg ?k) ?v ?m? {{*a}})\", when: [\"{guard}\"]"
        ))
    };
    for guard in ["rank(?m, 4)", "const(?m)", "equal(dim(?m, 0), 1)", "any(rank(?m, 4), const(?m))"] {
        assert!(matches!(egraph(PLAIN).probe(&body(guard)), Probe::Fires(_)), "{guard}");
        assert!(matches!(egraph(MASKED).probe(&body(guard)), Probe::Refuses { .. }), "{guard}");
    }
    assert!(matches!(egraph(MASKED).probe(&body("rank(?m, 2)")), Probe::Fires(_)));
    match egraph(MASKED).probe(&body("rank(?m, 4)")) {
        Probe::Refuses { reason, .. } => assert_eq!(reason, "?m? (f32[3,5]) is of rank 2, not 4"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_number_in_a_range_is_bound() {
    let graph =
        |value: &str| format!("x: f32[2,3] = input; c: f32[] = const [{value}]; y = mul(x, c); return y");
    for (range, fits, does_not) in [
        ("0..6", &["0.0", "6.0", "2.5"][..], &["-0.1", "6.1"][..]),
        ("0..", &["0.0", "1e30"], &["-1e-3"]),
        ("..-1", &["-1.0", "-7.0"], &["-0.5", "1.0"]),
        ("..", &["-1.0", "7.0"], &[]),
        ("0.1", &["0.1"], &["0.2"]),
    ] {
        for (values, expected) in [(fits, 1), (does_not, 0)] {
            for value in values {
                let found = matches(&graph(value), &format!("(mul ?x ?c:{range})"));
                assert_eq!(found, expected, "{value} in {range}");
                assert_eq!(matches(&graph(value), &format!("(mul {range} ?x)")), expected);
            }
        }
    }
    let body = "from: \"(mul ?x ?c:0..6)\", to: \"(add ?c ?x)\"";
    assert_eq!(after(&graph("2.5"), body), "y = add(c, x)");
}

#[test]
fn an_op_is_not_made_with_too_many_operands() {
    let body = "from: \"(concat ?xs.. {axis: 1})\", to: \"(relu ?xs..)\"";
    match egraph(FOUR).probe(&rule(body)) {
        Probe::Refuses { guard, reason } => {
            assert_eq!((guard.as_str(), reason.as_str()), ("", "`relu` takes 1 operand, 4 are given"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn operands_in_the_reference_are_parsed_and_printed_as_written() {
    for (written, _) in ovolo::rule::OPERANDS {
        let from = format!("(concat {written} {{axis: 1}})");
        let one = rule(&format!("from: \"{from}\", to: \"(exp 0.0)\""));
        let printed = Names::new(&one).pattern(&one.from[0]);
        assert_eq!(printed.replace(".0", ""), from.replace(".0", ""));
    }
}

#[test]
fn patterns_are_printed_as_they_are_written() {
    let from = "(attention (mul ?q ?s:0.0..6.0) (add ?k ..1.0) ?v ?m? {scale: ?c})";
    let one = rule(&format!("from: \"{from}\", to: \"(attention ?q ?k ?v ?m? {{scale: ?c}})\""));
    assert_eq!(Names::new(&one).pattern(&one.from[0]), from);
    let from = "(concat ?a.. (concat ?b.. {axis: ?n}) ?c.. {axis: ?n})";
    let one = rule(&format!("from: \"{from}\", to: \"(concat ?a.. ?b.. ?c.. {{axis: ?n}})\""));
    assert_eq!(Names::new(&one).pattern(&one.from[0]), from);
    assert_eq!(Names::new(&one).template(&one.to[0]), "(concat ?a.. ?b.. ?c.. {axis: ?n})");
}

#[test]
fn verify_draws_ranges_rests_and_optional_operands() {
    let holds = |body: &str| verify::rule(&rule(body), crate::common::ops(), Settings::default()).holds();
    // An infinity times zero is NaN, so the rule is for finite numbers.
    assert!(holds(
        "from: \"(relu (mul ?x ?s:0..))\", to: \"(mul (relu ?x) ?s)\", when: [\"is-f32(?x)\"], assume: [\"finite\"]"
    ));
    assert!(!holds("from: \"(relu (mul ?x ?s:..))\", to: \"(mul (relu ?x) ?s)\", when: [\"is-f32(?x)\"]"));
    assert!(!holds("from: \"(relu (mul ?x ?s:-1..1))\", to: \"(mul (relu ?x) ?s)\", when: [\"is-f32(?x)\"]"));
    let flat = "from: \"(concat ?a.. (concat ?b.. {axis: ?n}) ?c.. {axis: ?n})\"";
    assert!(holds(&format!("{flat}, to: \"(concat ?a.. ?b.. ?c.. {{axis: ?n}})\"")));
    assert!(!holds(&format!("{flat}, to: \"(concat ?b.. ?a.. ?c.. {{axis: ?n}})\"")));
    // Wrong only with a mask, and wrong only without one.
    let masked = "from: \"(attention ?q ?k ?v ?m? {*a})\"";
    assert!(!holds(&format!("{masked}, to: \"(attention ?q ?k ?v {{*a}})\"")));
    assert!(!holds(&format!(
        "{masked}, to: \"(attention ?q ?k (neg ?v) ?m? {{*a}})\", when: [\"rank(?m, 9)\"]"
    )));
    assert!(holds(&format!("{masked}, to: \"(neg (attention ?q ?k (neg ?v) ?m? {{*a}}))\"")));
}

#[test]
fn similar_left_sides_match_in_either_order() {
    let rule =
        "from: [\"(softmax ?x {axis: 0})\", \"(softmax ?x {axis: 1})\"], to: [\"(exp ?x)\", \"(tanh ?x)\"]";
    for (first, second) in [(0, 1), (1, 0)] {
        let graph = format!(
            "x: f32[2,3] = input; a = softmax(x) {{axis: {first}}}; b = softmax(x) {{axis: {second}}}; return a; return b"
        );
        assert!(after(&graph, rule).contains("exp(x)"), "{graph}");
    }
    // The shared operand is at different positions.
    let rule = "from: [\"(matmul ?x ?a)\", \"(matmul ?b ?x)\"], to: [\"(exp ?x)\", \"(tanh ?x)\"]";
    for graph in ["p = matmul(x, y); q = matmul(z, x)", "p = matmul(z, x); q = matmul(x, y)"] {
        let graph = format!(
            "x: f32[2,2] = input; y: f32[2,2] = input; z: f32[2,2] = input; {graph}; return p; return q"
        );
        assert!(after(&graph, rule).contains("exp(x)"), "{graph}");
    }
}

/// Pairs whose order matters to a guard, a `let` or the right sides; and two graphs that differ only in the
/// order of their nodes.
const APART: &[(&str, [&str; 2])] = &[
    (
        r#"from: ["(matmul ?x ?a)", "(matmul ?x ?b)"], to: ["(neg (matmul ?x (neg ?a)))", "(matmul ?x ?b)"], when: ["equal(dim(?a, 1), 17)"]"#,
        [
            "x: f32[4,8] = input; a: f32[8,17] = const ~1; b: f32[8,16] = const ~2; p = matmul(x, a); q = matmul(x, b); return p; return q",
            "x: f32[4,8] = input; a: f32[8,17] = const ~1; b: f32[8,16] = const ~2; q = matmul(x, b); p = matmul(x, a); return p; return q",
        ],
    ),
    (
        r#"from: ["(relu ?x)", "(relu ?y)"], to: ["(relu (max ?x 0.0))", "(relu ?y)"], when: ["rank(?x, 1)", "rank(?y, 2)"]"#,
        [
            "x: f32[8] = input; y: f32[2,8] = input; p = relu(x); q = relu(y); return p; return q",
            "x: f32[8] = input; y: f32[2,8] = input; q = relu(y); p = relu(x); return p; return q",
        ],
    ),
    (
        r#"from: ["(relu ?x)", "(relu ?y)"], to: ["(relu (reshape ?x {shape: ?s}))", "(relu (reshape ?y {shape: ?t}))"], when: ["same-shape(?x, ?y)"], let: {"s": "list(dim(?x, 0))", "t": "list(2, 4)"}"#,
        [
            "x: f32[8] = input; y: f32[8] = input; p = relu(x); q = relu(y); return p; return q",
            "x: f32[8] = input; y: f32[8] = input; q = relu(y); p = relu(x); return p; return q",
        ],
    ),
];

#[test]
fn both_orders_of_two_left_sides_are_tried_if_the_order_matters() {
    for (body, _) in APART {
        assert!(!rule(body).symmetric, "{body}");
    }
    for (body, graphs) in &APART[..2] {
        for graph in graphs {
            assert!(matches!(egraph(graph).probe(&rule(body)), Probe::Fires(_)), "{body}\n{graph}");
        }
    }
}

#[test]
fn a_pair_whose_order_does_not_matter_is_matched_once() {
    let shipped = crate::common::rules();
    let pairs: Vec<&Arc<Rule>> = shipped.rules().iter().filter(|rule| rule.from.len() == 2).collect();
    assert!(pairs.len() >= 7);
    for rule in pairs {
        assert!(rule.symmetric, "{}", rule.name);
    }
    for body in [
        r#"from: ["(relu ?x)", "(relu ?y)"], to: ["(max ?x 0.0)", "(max ?y 0.0)"], when: ["is-f32(?y)", "is-f32(?x)"]"#,
        r#"from: ["(relu ?x)", "(relu ?y)"], to: ["(max ?x 0.0)", "(max ?y 0.0)"], when: ["same-type(?y, ?x)", "rank(?x, 2)"]"#,
        r#"from: ["(add ?x ?a)", "(add ?x ?b)"], to: ["(add ?x ?a)", "(add ?b ?x)"], when: ["equal(dim(?a, 0), dim(?b, 0))", "less(3, dim(?a, 0))"]"#,
    ] {
        assert!(rule(body).symmetric, "{body}");
    }
}

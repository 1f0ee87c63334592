//! Tests the growth of the e-graph within limits, and which rules are reported for it.
#![allow(clippy::unwrap_used)]

use ovolo::egraph::{EGraph, Limits, Saturation, Stop};
use ovolo::graph::text;
use ovolo::rule::RuleSet;
use ovolo::verify::verify;
use std::time::Duration;

/// A match adds at most three nodes, and two of the rules add almost nothing.
const RULES: &str = r#"[
    Rule(name: "associate", from: "(add (add ?x ?y) ?z)", to: "(add ?x (add ?y ?z))"),
    Rule(name: "grow", from: "(add ?x ?y)", to: "(neg (neg (add ?y ?x)))"),
    Rule(name: "drop-double-relu", from: "(relu (relu ?x))", to: "(relu ?x)"),
]"#;

fn grown(limits: Limits) -> (usize, usize, Saturation) {
    grown_by(RULES, "add", 7, limits)
}

/// Grows a chain of `count` ops, of which each reads the one before it and an input. Returns the number of nodes before and
/// after.
fn grown_by(rules: &str, op: &str, count: usize, limits: Limits) -> (usize, usize, Saturation) {
    let mut graph = "a0: f32[2] = input; s0 = relu(a0); ".to_owned();
    for at in 1..=count {
        graph += &format!("a{at}: f32[2] = input; s{at} = {op}(s{}, a{at}); ", at - 1);
    }
    let graph = text::parse(crate::common::ops(), &format!("graph {{ {graph} return s{count} }}")).unwrap();
    let rules = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", rules)]).unwrap();
    let mut egraph = EGraph::new(&verify(graph).unwrap());
    let before = egraph.nodes();
    let saturation = egraph.saturate(rules.rules(), limits, &|| Duration::ZERO).unwrap();
    (before, egraph.nodes(), saturation)
}

#[test]
fn the_limit_on_nodes_is_overshot_by_one_match_at_most() {
    for nodes in 20..200 {
        let (before, after, saturation) = grown(Limits { rounds: 50, nodes });
        assert!(matches!(saturation.stop, Stop::Nodes { .. }), "{nodes}: {}", saturation.stop);
        let most_of_a_match = 3;
        assert!(after >= nodes && after < nodes.max(before) + most_of_a_match, "{nodes}: {before}, {after}");
        assert_eq!(saturation.nodes, after);
    }
}

#[test]
fn the_rule_that_blew_up_is_named_with_its_share() {
    let (before, after, saturation) = grown(Limits { rounds: 50, nodes: 300 });
    let Stop::Nodes { rule, percent } = &saturation.stop else { panic!("{}", saturation.stop) };
    let most = saturation.growth.iter().max_by_key(|one| one.nodes).unwrap();
    let total: usize = saturation.growth.iter().map(|one| one.nodes).sum();
    assert_eq!((rule, *percent), (&most.rule, most.nodes * 100 / total));
    assert!(*percent > 50, "{}", saturation.stop);
    // The nodes that rules added are the growth, plus the nodes that congruence merged.
    assert!(total >= after - before, "{total} added, {before} became {after}");
    assert_eq!(
        saturation.stop.to_string(),
        format!("stopped at the limit on nodes; `{rule}` added {percent} % of them")
    );
    for (at, sum) in saturation.growth.iter().enumerate() {
        let rounds: usize = saturation.by_round.iter().map(|round| round[at].nodes).sum();
        assert_eq!(rounds, sum.nodes, "{}", sum.rule);
        let classes: i64 = saturation.by_round.iter().map(|round| round[at].classes).sum();
        assert_eq!(classes, sum.classes, "{}", sum.rule);
        assert_eq!(sum.classes, sum.nodes as i64 - sum.united as i64, "{}", sum.rule);
        assert!(sum.applied <= sum.matched && sum.matched <= sum.tried, "{sum:?}");
    }
}

#[test]
fn no_rule_is_blamed_for_a_limit_that_the_graph_reaches_by_itself() {
    let (before, after, saturation) = grown(Limits { rounds: 5, nodes: 1 });
    assert_eq!(before, after);
    assert_eq!(saturation.stop.to_string(), "stopped at the limit on nodes");
}

#[test]
fn a_limit_on_rounds_is_reported_as_such() {
    let (_, _, saturation) = grown(Limits { rounds: 1, nodes: 100_000 });
    let last = saturation.by_round.last().unwrap();
    let most = last.iter().max_by_key(|rule| rule.nodes).unwrap();
    let percent = most.nodes * 100 / last.iter().map(|rule| rule.nodes).sum::<usize>();
    assert!(percent > 0);
    assert_eq!(saturation.rounds, 1);
    assert_eq!(saturation.stop, Stop::Rounds { rule: most.rule.clone(), percent });
}

#[test]
fn what_no_rule_adds_is_counted_the_other_order_of_operands_and_equal_operands() {
    let saturated = |graph: &str, rules: &str| {
        let graph = text::parse(crate::common::ops(), graph).unwrap();
        let rules = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", rules)]).unwrap();
        let limits = Limits { rounds: 8, nodes: 1000 };
        EGraph::new(&verify(graph).unwrap()).saturate(rules.rules(), limits, &|| Duration::ZERO).unwrap()
    };
    // `relu` stands on the left of one sum, and on the right of the other.
    let sums = "graph { x: f32[2] = input; y: f32[2] = input; r = relu(x); \
                a = add(r, y); b = add(y, r); return a; return b }";
    let rule = r#"[Rule(name: "left", from: "(add (relu ?x) ?y)", to: "(relu (add ?x ?y))")]"#;
    let turned = saturated(sums, rule);
    assert_eq!((turned.growth[0].turned, turned.closed), (1, 0), "{turned:?}");
    let straight = saturated(&sums.replace("add(y, r)", "neg(r)"), rule);
    assert!(straight.growth[0].applied > 0 && straight.growth[0].turned == 0, "{straight:?}");
    // `unpack` of two values becomes one value, so these are one: the second rule has not seen them.
    let rules = r#"[
        Rule(name: "move", from: "(relu (unpack ?p))", to: "(unpack (relu ?p))"),
        Rule(name: "drop", from: "(relu (relu ?x))", to: "(relu ?x)"),
    ]"#;
    let blocks =
        "graph { p: f32[1,16,2,2]@nChw16c = input; s = unpack(p); a = relu(s); b = relu(a); return b }";
    let closed = saturated(blocks, rules);
    assert_eq!((closed.closed, &closed.stop), (1, &Stop::Saturated), "{closed:?}");
}

#[test]
fn rules_that_find_ever_more_matches_are_stopped_and_named() {
    // Each difference is equal to its first operand, so that all are nodes of one class, which is their operand as well.
    let rules = r#"[
    Rule(name: "first", from: "(sub ?x ?y)", to: "?x"),
    Rule(name: "deep", from: "(sub (sub (sub (sub ?a ?b) ?c) ?d) ?e)", to: "(sub ?a ?e)"),
]"#;
    let (_, _, saturation) = grown_by(rules, "sub", 23, Limits { rounds: 50, nodes: 1000 });
    let Stop::Matches { rule, percent } = &saturation.stop else { panic!("{}", saturation.stop) };
    assert!(rule == "deep" && *percent > 90, "{}", saturation.stop);
    let last: usize = saturation.by_round.last().unwrap().iter().map(|one| one.tried).sum();
    assert_eq!(last, 100_000);
    assert!(saturation.stop.to_string().contains("`deep` found"), "{}", saturation.stop);
}

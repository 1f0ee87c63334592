//! Tests `rules why-not`: how much of a rule's left sides matches, what prevents a match, and each guard's
//! reason.
#![allow(clippy::unwrap_used)]

use ovolo::egraph::{EGraph, Limits, WhyNot};
use ovolo::graph::text;
use ovolo::rule::{Rule, RuleSet};
use ovolo::verify::verify;
use std::fmt::Write;
use std::sync::Arc;

fn rule(body: &str) -> Arc<Rule> {
    let text = format!("[Rule(name: \"a-rule\", {body})]");
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", &text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    Arc::clone(&set.rules()[0])
}

fn why(graph: &str, body: &str) -> WhyNot {
    why_at(graph, body, None)
}

fn why_at(graph: &str, body: &str, node: Option<&str>) -> WhyNot {
    let graph = text::parse(crate::common::ops(), &format!("graph {{\n{graph}\n}}"))
        .unwrap_or_else(|errors| panic!("{errors}"));
    EGraph::new(&verify(graph).unwrap()).why_not(&rule(body), node).unwrap()
}

/// The nearest miss: the number of parts that match, the number of all parts, the failing part, the place,
/// the reason.
fn miss(why: &WhyNot) -> (usize, usize, &str, &str, &str) {
    match why {
        WhyNot::Miss { stands, of, part, at, why } => (*stands, *of, part, at, why),
        other => panic!("{other:?}"),
    }
}

const IMAGE: &str = "x: f32[2,17] = input; ";

/// Guards that refuse: the left side, the guard, the graph after `x: f32[2,17] = input`.
const NOES: &[(&str, &str, &str)] = &[
    ("(relu ?x)", "const(?x)", "y = relu(x); return y"),
    ("(concat ?xs.. {axis: 0})", "all-const(?xs)", "y = concat(x, x) {axis: 0}; return y"),
    ("(relu ?x)", "scalar(?x)", "y = relu(x); return y"),
    ("(neg ?i)", "is-f32(?i)", "i: i32[4] = input; y = neg(i); return y"),
    ("(concat ?xs.. {axis: 0})", "all-f32(?xs)", "i: i32[4] = input; y = concat(i, i) {axis: 0}; return y"),
    ("(neg ?i)", "is-f32-or-bf16(?i)", "i: i32[4] = input; y = neg(i); return y"),
    ("(neg ?i)", "is-f32-or-16-bit(?i)", "i: i32[4] = input; y = neg(i); return y"),
    (
        "(concat ?xs.. {axis: 0})",
        "all-f32-or-bf16(?xs)",
        "i: i32[4] = input; y = concat(i, i) {axis: 0}; return y",
    ),
    ("(relu ?x)", "is-dtype(?x, i64)", "y = relu(x); return y"),
    ("(relu ?x)", "rank(?x, 4)", "y = relu(x); return y"),
    ("(concat ?xs.. {axis: 1})", "all-rank(?xs, 4)", "y = concat(x, x) {axis: 1}; return y"),
    ("(relu ?x)", "min-rank(?x, 3)", "y = relu(x); return y"),
    (
        "(unpack ?p)",
        "plain(?p)",
        "v: f32[1,8,2,2] = input; p = pack(v) {layout: nChw8c}; y = unpack(p); return y",
    ),
    ("(relu ?x)", "layout-is(?x, nChw8c)", "y = relu(x); return y"),
    ("(sub ?x ?z)", "same-shape(?x, ?z)", "z: f32[17] = input; y = sub(x, z); return y"),
    ("(sub ?x ?z)", "same-type(?x, ?z)", "z: f32[17] = input; y = sub(x, z); return y"),
    ("(relu ?x)", "shape-is(?x, [2,16])", "y = relu(x); return y"),
    ("(sub ?x ?z)", "broadcasts-to(?x, ?z)", "z: f32[17] = input; y = sub(x, z); return y"),
    ("(sub ?x ?z)", "value-is(?z, 0.0)", "z: f32[1] = const [0.5]; y = sub(x, z); return y"),
    ("(relu ?x)", "finite(?x)", "y = relu(x); return y"),
    ("(sub ?x ?z)", "finite(?z)", "z: f32[1] = const [inf]; y = sub(x, z); return y"),
    (
        "(mul (mul ?x ?a) ?z)",
        "product-holds(?a, ?z)",
        "a: f32[1] = const [1e30]; z: f32[1] = const [1e30]; m = mul(x, a); y = mul(m, z); return y",
    ),
    ("(div ?x ?z)", "reciprocal-holds(?z)", "z: f32[1] = const [1e-40]; y = div(x, z); return y"),
    (
        "(dequantize ?l ?s ?z)",
        "is-level(0.3, ?s, ?z)",
        "l: u8[2] = input; s: f32[] = const [0.25]; z: u8[] = const [3]; y = dequantize(l, s, z); return y",
    ),
    ("(relu ?x)", "divisible(dim(?x, 1), 16)", "y = relu(x); return y"),
    ("(relu ?x)", "equal(dim(?x, 1), 16)", "y = relu(x); return y"),
    ("(relu ?x)", "not-equal(rank-of(?x), 2)", "y = relu(x); return y"),
    ("(relu ?x)", "less(dim(?x, 1), dim(?x, 0))", "y = relu(x); return y"),
    ("(relu ?x)", "at-most(dim(?x, 1), 8)", "y = relu(x); return y"),
    ("(transpose ?x {perm: ?p})", "identity-perm(?p)", "y = transpose(x) {perm: [1,0]}; return y"),
    ("(transpose ?x {perm: ?p})", "moves-only-ones(?x, ?p)", "y = transpose(x) {perm: [1,0]}; return y"),
    (
        "(slice ?x {starts: ?b, *s})",
        "all-zeros(?b)",
        "y = slice(x) {starts: [0,1], sizes: [2,2], steps: [1,1]}; return y",
    ),
    (
        "(slice ?x {steps: ?t, *s})",
        "all-ones(?t)",
        "y = slice(x) {starts: [0,0], sizes: [2,2], steps: [1,2]}; return y",
    ),
    (
        "(einsum ?x ?z {equation: ?e})",
        "einsum-has-matrices(?e)",
        "z: f32[17] = input; y = einsum(x, z) {equation: \"ab,b->ab\"}; return y",
    ),
    ("(relu ?x)", "not(rank(?x, 2))", "y = relu(x); return y"),
    ("(relu ?x)", "any(const(?x), divisible(dim(?x, 1), 16))", "y = relu(x); return y"),
];

#[test]
fn every_guard_refuses_with_the_values_it_saw() {
    let mut report = String::new();
    for (from, guard, graph) in NOES {
        let body = format!("from: \"{from}\", to: \"(exp 0.0)\", when: [\"{guard}\"]");
        match why(&format!("{IMAGE}{graph}"), &body) {
            WhyNot::Refused { reason, .. } => {
                let told = reason.strip_prefix(&format!("{guard}: ")).unwrap();
                assert!(told.contains('('), "no value in: {told}");
                writeln!(report, "{reason}").unwrap();
            }
            other => panic!("{guard}: {other:?}"),
        }
    }
    for guard in crate::common::registry().words().all().filter(|function| function.is_guard()) {
        let asked = |(_, text, _): &&(&str, &str, &str)| text.split('(').next() == Some(guard.name);
        // The roots of a graph that no rule has changed are not their own operands.
        let elsewhere = guard.name == "not-root";
        assert!(elsewhere || NOES.iter().find(asked).is_some(), "`{}` has no case", guard.name);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/why_not"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("guards", report));
}

#[test]
fn a_number_that_adds_a_dimension_is_reported() {
    let half = "from: \"(mul (relu ?x) 0.5)\", to: \"(relu ?x)\"";
    let graph = |rank: &str| {
        format!("x: f32[3] = input; r = relu(x); c: f32[{rank}] = const [0.5]; y = mul(r, c); return y")
    };
    let found = why(&graph("1,1"), half);
    let (_, _, part, at, why_not) = miss(&found);
    assert_eq!((part, at), ("0.5", "`c` (f32[1,1])"));
    assert_eq!(
        why_not,
        "it is 0.5 with 2 dimension(s), and what stands beside it has 1: the others would show in the result (law 6)"
    );
    assert!(matches!(why(&graph("1"), half), WhyNot::Fires(_)));
    // A different value is reported as such, whatever its dimensions.
    let third = "from: \"(mul ?x ?c:0.25..0.4)\", to: \"(relu ?x)\"";
    let found = why(&graph("1,1"), third);
    let (_, _, part, _, why_not) = miss(&found);
    assert_eq!((part, why_not), ("?c:0.25..0.4", "it is 0.5"));
}

/// The report on a rule in a fresh e-graph, and after a phase with these limits.
fn report(graph: &str, body: &str, limits: Limits) -> String {
    let rule = rule(body);
    let graph = text::parse(crate::common::ops(), &format!("graph {{\n{graph}\n}}"))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let graph = verify(graph).unwrap();
    let fresh = EGraph::new(&graph).why_not(&rule, None).unwrap();
    let mut egraph = EGraph::new(&graph);
    let saturation =
        egraph.saturate(std::slice::from_ref(&rule), limits, &|| std::time::Duration::ZERO).unwrap();
    let growth = &saturation.growth[0];
    let nodes = egraph.nodes();
    let after = egraph.why_not(&rule, None).unwrap();
    assert_eq!(egraph.nodes(), nodes, "asking changes nothing after a phase");
    let done = format!("matched {}, refused {}", growth.matched, growth.refused);
    format!("fresh: {fresh}\nphase: {done}, {}\nafter: {after}\n", saturation.stop)
}

#[test]
fn refused_matches_and_matches_beyond_a_limit_do_not_fire() {
    let plenty = Limits { rounds: 4, nodes: 1000 };
    let none = Limits { nodes: 0, ..plenty };
    let relu = "x: f32[2,17] = input; y = relu(x); return y";
    let chain = "x: f32[3,3] = input; a: f32[3,3] = const ~1; p = matmul(x, a); q = matmul(p, a); return q";
    let merge =
        "from: [\"(matmul ?x ?a)\", \"(matmul ?y ?b)\"], to: [\"(matmul ?x ?a)\", \"(matmul ?y ?b)\"]";
    let join = "x: f32[2,3] = input; y = concat(x, x, x) {axis: 1}; return y";
    let cases = [
        ("a right side that cannot be typed", relu, "from: \"(relu ?x)\", to: \"(matmul ?x ?x)\"", plenty),
        ("an operand computed from another output", chain, merge, plenty),
        ("a limit before the rule's turn", relu, "from: \"(relu ?x)\", to: \"(max ?x 0.0)\"", none),
        (
            "several matches at one place",
            join,
            "from: \"(concat ?xs.. ?ys.. {axis: 1})\", to: \"(concat ?xs.. ?ys.. {axis: 1})\"",
            plenty,
        ),
    ];
    let report: String = cases
        .map(|(name, graph, body, limits)| format!("{name}\n{}\n", report(graph, body, limits)))
        .concat();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/why_not"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("no_turn", report));
}

#[test]
fn an_operand_too_many_or_too_few_is_reported() {
    let graph = "x: f32[2,3] = input; y = concat(x, x, x) {axis: 1}; return y";
    let found = why(graph, "from: \"(concat ?x ?y {axis: 1})\", to: \"?x\"");
    assert_eq!(miss(&found).4, "its `concat` has 3 operand(s)");
    let found = why(graph, "from: \"(concat ?x ?y? {axis: 1})\", to: \"?x\"");
    assert_eq!(miss(&found).4, "its `concat` has 3 operand(s)");
    assert!(matches!(
        why(graph, "from: \"(concat ?x ?y? ?z {axis: 1})\", to: \"?x\""),
        WhyNot::Fires(places) if places.len() == 1
    ));
}

#[test]
fn of_several_left_sides_the_failing_one_is_reported() {
    let merge = "from: [\"(matmul ?x ?a)\", \"(relu (sub ?x ?b))\"], to: [\"?a\", \"?b\"]";
    let graph = "x: f32[3,3] = input; a: f32[3,3] = const ~1; b: f32[3] = const ~2; p = matmul(x, a); ";
    // Nothing matches even a part of the second left side.
    let found = why(&format!("{graph}q = sub(x, b); r = exp(q); return p; return r"), merge);
    let expected = (3, 7, "(relu (sub ?x ?b))", "some value", "there is no other `relu` in the e-graph");
    assert_eq!(miss(&found), expected);
    // It would match, but `?x` is bound to another value.
    let other = "z: f32[3,3] = input; q = sub(z, b); r = relu(q); return p; return r";
    let found = why(&format!("{graph}{other}"), merge);
    let expected = (5, 7, "?x", "`z` (f32[3,3])", "the variable is already bound to `x` (f32[3,3])");
    assert_eq!(miss(&found), expected);
    // Both left sides read one operand, but there is only one reader.
    let twins = "from: [\"(matmul ?x ?a)\", \"(matmul ?x ?b)\"], to: [\"?a\", \"?b\"]";
    let found = why(&format!("{graph}return p"), twins);
    let expected = (3, 6, "(matmul ?x ?b)", "some value", "no other `matmul` reads `x` (f32[3,3])");
    assert_eq!(miss(&found), expected);
    // Both match; the question is about one value, the root of one of them.
    let both = format!("{graph}q = sub(x, b); r = relu(q); return p; return r");
    assert!(matches!(why(&both, merge), WhyNot::Fires(_)));
    assert!(matches!(why_at(&both, merge, Some("p")), WhyNot::Fires(_)));
    assert!(matches!(why_at(&both, merge, Some("r")), WhyNot::Fires(_)));
    // The value is the root of neither, so each left side reports a miss there.
    let WhyNot::Misses(sides) = why_at(&both, merge, Some("q")) else { panic!() };
    let told: Vec<_> = sides.iter().map(|(side, why)| (side.as_str(), miss(why))).collect();
    let at = "`q` (f32[3,3])";
    assert_eq!(
        told,
        [
            ("(matmul ?x ?a)", (0, 7, "(matmul ?x ?a)", at, "it is computed by `sub`")),
            ("(relu (sub ?x ?b))", (0, 7, "(relu (sub ?x ?b))", at, "it is computed by `sub`")),
        ]
    );
    // The second left side matches there, but the first one matches nowhere with it.
    let alone = format!("{graph}q = sub(x, b); r = relu(q); y = neg(p); return r");
    let alone = alone.replace("p = matmul(x, a)", "p = matmul(a, a)");
    let WhyNot::Misses(sides) = why_at(&alone, merge, Some("r")) else { panic!() };
    assert_eq!(miss(&sides[0].1).4, "it is computed by `relu`");
    assert_eq!(
        miss(&sides[1].1),
        (4, 7, "(matmul ?x ?a)", "some value", "no other `matmul` reads `x` (f32[3,3])")
    );
    // A guard on operands of both.
    match why(&both, &format!("{merge}, when: [\"same-type(?a, ?b)\"]")) {
        WhyNot::Refused { at, reason, .. } => {
            assert_eq!(at, "`p` (f32[3,3]) and `r` (f32[3,3])");
            assert_eq!(reason, "same-type(?a, ?b): ?a (f32[3,3]) and ?b (f32[3]) differ");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_a_symmetric_pair_either_value_may_be_given() {
    let pair = "from: [\"(matmul ?x ?a {post: <>})\", \"(matmul ?x ?b {post: <>})\"], to: [\"(matmul ?x ?a)\", \"(matmul ?x ?b)\"]";
    let graph = "x: f32[3,3] = input; a: f32[3,3] = const ~1; b: f32[3,3] = const ~2; p = matmul(x, a); q = matmul(x, b); return p; return q";
    for node in ["p", "q"] {
        assert!(matches!(why_at(graph, pair, Some(node)), WhyNot::Fires(_)), "{node}");
        let guarded = format!("{pair}, when: [\"not(const(?a))\", \"not(const(?b))\"]");
        match why_at(graph, &guarded, Some(node)) {
            WhyNot::Refused { at, .. } => assert_eq!(at, "`p` (f32[3,3]) and `q` (f32[3,3])"),
            other => panic!("{node}: {other:?}"),
        }
    }
    // If the guards distinguish them, each order is a separate match.
    let apart = format!("{pair}, when: [\"not(const(?a))\"]");
    for node in ["p", "q"] {
        assert!(matches!(why_at(graph, &apart, Some(node)), WhyNot::Refused { times: 2, .. }), "{node}");
    }
    // A value of another op is reported once for the pair.
    let other = format!("{}; n = neg(p); return n", graph.replace("; return p; return q", ""));
    let found = why_at(&other, pair, Some("n"));
    assert_eq!(miss(&found), (0, 6, "(matmul ?x ?a)", "`n` (f32[3,3])", "it is computed by `neg`"));
    // A value without a partner.
    let alone = "x: f32[3,3] = input; y: f32[3,3] = input; a: f32[3,3] = const ~1; p = matmul(x, a); q = matmul(y, a); return p; return q";
    for (node, reads) in [("p", "x"), ("q", "y")] {
        let found = why_at(alone, pair, Some(node));
        assert_eq!(miss(&found).4, format!("no other `matmul` reads `{reads}` (f32[3,3])"), "{node}");
    }
}

#[test]
fn the_nearest_miss_of_several_left_sides_is_the_nearest_of_all() {
    let graph = "x: f32[4,8] = input; w: f32[8,16] = input; v: f32[8,16] = input; c: f32[16] = input
        a = matmul(x, w); b = matmul(x, v, c) {post: <add>}; return a; return b";
    // Both left sides have the same ops, and the later one matches.
    let alike =
        "from: [\"(matmul ?x ?a ?c {post: ?q})\", \"(matmul ?x ?b ?d {post: ?q})\"], to: [\"?x\", \"?x\"]";
    let found = why(graph, alike);
    assert_eq!(miss(&found).0, 4, "{found}");
    assert_eq!(miss(&found).0, miss_at(graph, alike, "b"), "{found}");
    // The first left side matches nowhere, and the second one does.
    let unlike = "from: [\"(relu ?x)\", \"(matmul ?x ?w)\"], to: [\"?x\", \"?x\"]";
    let found = why(graph, unlike);
    let (stands, of, part, ..) = miss(&found);
    assert_eq!((stands, of, part), (3, 5, "(relu ?x)"), "{found}");
}

/// The number of parts that match at a value, for the left side that matches most.
fn miss_at(graph: &str, body: &str, node: &str) -> usize {
    let found = why_at(graph, body, Some(node));
    match &found {
        WhyNot::Misses(sides) => sides.iter().map(|(_, why)| miss(why).0).max().unwrap(),
        why => miss(why).0,
    }
}

#[test]
fn an_op_on_its_own_result_is_refused_by_not_root() {
    let graph = "graph {\nx: f32[2,17] = input; a = relu(x); y = relu(a); return y\n}";
    let mut egraph = EGraph::new(&verify(text::parse(crate::common::ops(), graph).unwrap()).unwrap());
    let mut apply = |body: &str| {
        let limits = Limits { rounds: 1, nodes: 1000 };
        let zero = || std::time::Duration::ZERO;
        let saturation = egraph.saturate(&[rule(body)], limits, &zero).unwrap();
        (saturation.growth[0].matched, saturation.growth[0].refused)
    };
    // Then the only result is `relu` of `x`, and `relu` of itself.
    assert_eq!(apply("from: \"(relu (relu ?x))\", to: \"(relu ?x)\""), (1, 0));
    assert_eq!(apply("from: \"(relu ?x)\", to: \"(max ?x 0.0)\", when: [\"not-root(?x)\"]"), (2, 1));
}

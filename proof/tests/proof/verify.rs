//! Tests that every shipped rule holds on generated instances, and that all members of models' e-graphs
//! agree.
#![allow(clippy::unwrap_used)]

use crate::common;

use crate::common::{options, pipeline};
use ovolo::attr::{Attr, Attrs};
use ovolo::compile::Options;
use ovolo::graph::{Graph, Node, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::op;
use ovolo::registry::Registry;
use ovolo::rule::{AttrPattern, Expr, Pattern, Rule, RuleSet, Template};
use ovolo::tensor::{DType, TensorType};
use ovolo_proof::verify::{self, Settings, Verdict, Verification};
use std::path::PathBuf;
use std::sync::Arc;

/// The only rule of a file.
fn rule(text: &str) -> Arc<Rule> {
    Arc::clone(
        &RuleSet::read(common::registry().vocabulary(), &[("rules/test.ron", text)])
            .unwrap_or_else(|found| panic!("{found}"))
            .rules()[0],
    )
}

fn verified(text: &str) -> Verification {
    verify::rule(&rule(text), common::ops(), Settings::default())
}

#[test]
fn every_op_has_a_sampler() {
    let all = op::Ops::new().all();
    let without: Vec<&str> =
        all.into_iter().filter(|def| !verify::has_sampler(*def)).map(|def| def.name).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn every_op_keeps_the_positions_independent_that_it_declares() {
    let declares =
        |op: &op::Op| !matches!(op.independence(), op::Independence::Unknown | op::Independence::RowMajor);
    let mut few = Vec::new();
    for op in op::Ops::new().all().into_iter().filter(declares) {
        let found = verify::independence(op, 60).unwrap_or_else(|why| panic!("{why}"));
        if found.replaced < 10 || found.shortened == 0 {
            few.push((op.name, found));
        }
    }
    assert!(few.is_empty(), "{few:?}");
}

#[test]
fn false_declarations_of_independence_are_found() {
    type Axes = fn(&Attrs, &[&TensorType], &TensorType) -> Vec<Vec<Option<usize>>>;
    let softmax = op::Ops::new().get("softmax").unwrap();
    let declared = |axes: Axes| {
        let (name, base) = ("row-softmax", softmax.definition());
        let definition = op::OpDef {
            name,
            doc: base.doc,
            arity: base.arity,
            attrs: base.attrs.clone(),
            flags: op::Flags::independent(axes),
            infer: base.infer,
            eval: base.eval,
            flops: base.flops,
            sample: Some(|draw| {
                let types = [TensorType::plain(DType::F32, draw.shape(3))];
                Some(op::Sample::new(Attrs::new().size("axis", 1), types))
            }),
            lowered: None,
        };
        let mut registry = Registry::new();
        registry.add_op(definition).unwrap();
        verify::independence(registry.ops().get(name).unwrap(), 60)
    };
    let right = declared(|_, _, _| vec![vec![Some(0), None, Some(2)]]).unwrap();
    assert!(right.replaced > 10 && right.shortened > 10, "{right:?}");
    let mixed = declared(|_, _, _| vec![vec![Some(0), Some(1), Some(2)]]).unwrap_err().to_string();
    assert!(mixed.contains("axis 1 of operand 0") || mixed.contains("along axis 1"), "{mixed}");
    let more = declared(|_, _, _| vec![vec![Some(0)], vec![Some(0)]]).unwrap_err().to_string();
    assert!(more.ends_with("declares more operands or axes than it has"), "{more}");
}

#[test]
fn every_shipped_rule_holds() {
    let rules = common::rules();
    let instances = common::draws(Settings::default().instances, 50);
    let settings = Settings { instances, ..Settings::default() };
    let all = verify::rules(rules.rules(), common::ops(), settings, 2, &|_| {});
    let bad: Vec<&Verification> = all.iter().filter(|one| !one.holds()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(all.iter().all(|one| one.instances == instances));
    // The instances have the features that they should have.
    for (name, feature) in [
        ("pack-conv-nChw16c", "padding"),
        ("pack-conv-nChw16c", "odd channels"),
        ("pack-conv-nChw16c", "attribute not at its default"),
        ("unpack-after-map", "padding"),
        ("cancel-pack-unpack", "padding"),
        ("map-add", "broadcast"),
        ("map-rsub", "size 1"),
        ("merge-convs", "odd channels"),
    ] {
        let one = all.iter().find(|one| one.rule == name).unwrap();
        let count = one.coverage.features.get(feature).copied().unwrap_or(0);
        assert!(count * 10 >= instances, "{name}: {feature} in {count} instances");
    }
    let add = all.iter().find(|one| one.rule == "lower-add-native").unwrap();
    assert_eq!(add.coverage.features.keys().filter(|name| name.starts_with("alternative")).count(), 4);
}

#[test]
fn each_rule_that_assumes_finite_numbers_needs_them() {
    let rules = common::rules();
    let bold: Vec<&Arc<Rule>> = rules.rules().iter().filter(|rule| !rule.assumes.is_empty()).collect();
    assert!(bold.len() >= 40, "{}", bold.len());
    for rule in bold {
        let plain = Rule { assumes: Vec::new(), ..Rule::clone(rule) };
        let settings = Settings { shrink: false, ..Settings::default() };
        let one = verify::rule(&plain, common::ops(), settings);
        let Verdict::Wrong { what, case } = &one.verdict else { panic!("{} holds without", rule.name) };
        // The sides may be finite and differ, where one of them compares an operand with a NaN.
        let named = what.contains("NaN") || what.contains("inf") || case.contains("NaN");
        assert!(named, "{}: {what}", rule.name);
    }
}

#[test]
fn infinities_and_nan_are_drawn_unless_a_rule_assumes_finite_numbers_or_asks_for_constants() {
    let text = |more: &str, when: &str| {
        format!(r#"[Rule(name: "no-zero", {more} from: "(mul ?x 0.0)", to: "(sub ?x ?x)", when: [{when}])]"#)
    };
    // Both sides are NaN for whatever is not finite.
    assert!(verified(&text("", r#""is-f32(?x)""#)).holds());
    let zero = |more: &str, when: &str| {
        let to = r#"(mul (neg ?x) (scalar {value: 0.0}))"#;
        let from = r#"(add (sub ?x ?x) (mul (sub ?y ?y) (scalar {value: 0.0})))"#;
        format!(
            r#"[Rule(name: "less", {more} from: "{from}", to: "{to}", when: [{when}, "equal(shape-of(?x), shape-of(?y))"])]"#
        )
    };
    let floats = r#""is-f32(?x)", "is-f32(?y)""#;
    let one = verified(&zero("", floats));
    let Verdict::Wrong { what, .. } = &one.verdict else { panic!("{one:#?}") };
    assert!(what.contains("NaN"), "{what}");
    assert!(verified(&zero(r#"assume: ["finite"],"#, floats)).holds());
    assert!(verified(&zero("", &format!(r#"{floats}, "const(?y)""#))).holds());
}

#[test]
fn results_do_not_depend_on_threads_or_on_other_rules() {
    let rules = common::rules();
    let some: Vec<Arc<Rule>> = rules.rules().iter().step_by(9).cloned().collect();
    let settings = Settings { instances: 20, ..Settings::default() };
    let one = verify::rules(&some, common::ops(), settings, 1, &|_| {});
    assert_eq!(one, verify::rules(&some, common::ops(), settings, 3, &|_| {}));
    assert_eq!(one[2], verify::rule(&some[2], common::ops(), settings));
}

#[test]
fn a_counterexample_is_small_and_its_text_reproduces_it() {
    let one = verified(
        r#"[Rule(name: "forget-the-mean", from: "(reduce-sum ?x {axes: ?a, keepdims: ?k})", to: "(reduce-mean ?x {axes: ?a, keepdims: ?k})")]"#,
    );
    let Verdict::Wrong { case, what } = &one.verdict else { panic!("{one:#?}") };
    assert!(what.starts_with("the sides differ in value: at ["), "{what}");
    let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
    assert!(graph.len() <= 3, "{case}");
    assert!(graph.nodes().all(|(_, node)| node.ty.shape.count() <= 4), "{case}");
    assert!(verify::compare_case(&graph).unwrap().is_some());
}

/// Wrong rules with one mistake each: name and rule.
const BROKEN: &[(&str, &str)] = &[
    (
        "forgets_the_mean",
        r#"from: "(reduce-sum ?x {axes: ?a, keepdims: ?k})", to: "(reduce-mean ?x {axes: ?a, keepdims: ?k})""#,
    ),
    (
        "forgets_the_border",
        r#"from: "(conv ?x ?w ?b {*a})", to: "(conv ?x (pad ?w 0.0 {pads: [0,0,1,1,0,0,1,1]}) ?b {*a})", when: ["is-f32(?w)"]"#,
    ),
    (
        "joins_along_another_axis",
        r#"from: "(concat (relu ?x) (relu ?y) {axis: ?_n})", to: "(relu (concat ?x ?y {axis: 0}))""#,
    ),
    (
        "swaps_the_factors",
        r#"from: "(add (matmul ?a ?b) (matmul ?a ?c))", to: "(matmul (add ?b ?c) ?a)", when: ["same-type(?b, ?c)"]"#,
    ),
    ("drops_a_chain", r#"from: "(map ?x ?e.. {post: ?_p})", to: "(map ?x {post: <>})""#),
    (
        "takes_the_first_part_twice",
        r#"from: ["(matmul ?a ?w)", "(matmul ?b ?w)"], to: ["(slice (matmul (concat ?a ?b {axis: 0}) ?w) {starts: [0,0], sizes: list(dim(?a, 0), dim(?w, 1)), steps: [1,1]})", "(slice (matmul (concat ?a ?b {axis: 0}) ?w) {starts: [0,0], sizes: list(dim(?b, 0), dim(?w, 1)), steps: [1,1]})"], when: ["rank(?a, 2)", "rank(?b, 2)", "rank(?w, 2)"]"#,
    ),
    ("mistakes_the_function_of_a_blocked_value", r#"from: "(relu (unpack ?x))", to: "(unpack (abs ?x))""#),
];

/// Rules that hold except for some values: ties, zeros, halves, integers, values beyond a bound, or the
/// limits of integer types.
const AT_THE_EDGE: &[(&str, &str, &str)] = &[
    ("a-tie", "(greater ?x ?y)", "(greater-equal ?x ?y)"),
    ("another-tie", "(equal ?x ?y)", "(less (add ?x ?y) (add ?x ?y))"),
    ("a-whole-number", "(ceil ?x)", "(add (floor ?x) 1.0)"),
    ("a-half", "(round ?x)", "(floor (add ?x 0.5))"),
    ("a-zero", "(sign (abs ?x))", "(sign (exp ?x))"),
    ("beyond-a-bound", "(relu ?x)", "(clip ?x {min: 0.0, max: 30.0})"),
    ("beyond-i8", "(cast (cast ?x {to: i8}) {to: i64})", "?x"),
    ("beyond-f16", "(cast (cast ?x {to: f16}) {to: i32})", "?x"),
    ("a-wrap", "(div (mul ?x 2.0) 2.0)", "?x"),
];

#[test]
fn rules_that_fail_at_the_edge_are_found_wrong() {
    for (name, from, to) in AT_THE_EDGE {
        // The guard gives both sides the same type, so that only their values can show the mistake.
        let when = match *name {
            "beyond-i8" => r#", when: ["is-dtype(?x, i64)"]"#,
            "beyond-f16" => r#", when: ["is-dtype(?x, i32)"]"#,
            "a-wrap" => r#", when: ["is-dtype(?x, u8)"]"#,
            _ => r#", when: ["is-f32(?x)"]"#,
        };
        let one = verified(&format!(r#"[Rule(name: "{name}", from: "{from}", to: "{to}"{when})]"#));
        let Verdict::Wrong { what, case } = &one.verdict else { panic!("{one:#?}") };
        assert!(what.starts_with("the sides differ in value"), "{name}: {what}\n{case}");
        let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
        assert!(verify::compare_case(&graph).unwrap().is_some(), "{name}: {case}");
    }
}

/// Every rule of `verify/unsound.ron` is wrong, and found to be wrong whatever the seed.
#[test]
fn unsound_rules_are_found_whatever_the_seed() {
    let text = include_str!("verify/unsound.ron");
    let rules = RuleSet::read(common::registry().vocabulary(), &[("unsound.ron", text)])
        .unwrap_or_else(|found| panic!("{found}"));
    assert!(rules.rules().len() >= 50);
    let mut slipped = Vec::new();
    for seed in 0..3 {
        let settings = Settings { seed, shrink: false, ..Settings::default() };
        for one in verify::rules(rules.rules(), common::ops(), settings, 2, &|_| {}) {
            if !matches!(one.verdict, Verdict::Wrong { .. }) {
                slipped.push(format!("{} (seed {seed}): {:?}", one.rule, one.verdict));
            }
        }
    }
    assert!(slipped.is_empty(), "{}", slipped.join("\n"));
}

/// Rules that hold, and whose guards or axes demand something that was once drawn too rarely.
const DEMANDING: &[&str] = &[
    r#"from: "(softmax (concat ?x ?y {axis: 0}) {axis: 1})", to: "(concat (softmax ?x {axis: 1}) (softmax ?y {axis: 1}) {axis: 0})""#,
    r#"from: "(concat (neg ?x) (neg ?y) {axis: 1})", to: "(neg (concat ?x ?y {axis: 1}))", when: ["min-rank(?x, 3)"]"#,
    r#"from: "(softmax (unpack ?x) {axis: 1})", to: "(unpack (pack (softmax (unpack ?x) {axis: 1}) {layout: nhwc}))", when: ["layout-is(?x, nhwc)"]"#,
    r#"from: "(relu (unpack ?x))", to: "(unpack (relu ?x))", when: ["layout-is(?x, Bac4b)"]"#,
    r#"from: "(softmax (relu ?x) {axis: 1})", to: "(softmax (max ?x 0.0) {axis: 1})", when: ["rank(?x, 4)", "is-f32(?x)"]"#,
    r#"from: "(concat (relu ?x) ?xs.. {axis: 1})", to: "(concat (relu (relu ?x)) ?xs.. {axis: 1})", when: ["all-rank(?xs, 4)"]"#,
    r#"from: "(relu (relu ?x))", to: "(relu ?x)", when: ["less(4, rank-of(?x))"]"#,
];

/// Literals next to ops that change the element type of the operand that the guard is about.
const OF_ANOTHER_TYPE: &[&str] = &[
    r#"from: "(add (cast ?x {to: i32}) 0)", to: "(cast ?x {to: i32})", when: ["is-f32(?x)"]"#,
    r#"from: "(mul (arg-max ?x {*a}) 1)", to: "(arg-max ?x {*a})", when: ["is-f32(?x)"]"#,
    r#"from: "(add 0 (neg (cast (relu ?x) {to: i64})))", to: "(neg (cast (relu ?x) {to: i64}))", when: ["is-f32(?x)"]"#,
    r#"from: "(less (cast ?x {to: i32}) 3)", to: "(not (greater-equal (cast ?x {to: i32}) (cast (scalar {value: 3.0}) {to: i32})))", when: ["is-f32(?x)"]"#,
];

#[test]
fn a_literal_has_the_type_of_the_other_operand() {
    for body in OF_ANOTHER_TYPE {
        let one = verified(&format!("[Rule(name: \"literal\", {body})]"));
        assert!(one.holds() && one.tries < 1000, "{body}: {one:#?}");
    }
}

#[test]
fn nan_is_drawn_if_a_rule_tests_for_it_and_equals_itself() {
    let one = verified(
        r#"[Rule(name: "asks", from: "(where (isnan ?x) ?x (relu ?x))", to: "(where (isnan (neg ?x)) (neg (neg ?x)) (relu ?x))", when: ["is-f32(?x)"])]"#,
    );
    assert!(one.holds(), "{one:#?}");
    let one = verified(
        r#"[Rule(name: "drops", from: "(where (isnan ?x) 0.0 ?x)", to: "?x", when: ["is-f32(?x)"])]"#,
    );
    let Verdict::Wrong { case, .. } = &one.verdict else { panic!("{one:#?}") };
    let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
    assert!(case.contains("NaN") && verify::compare_case(&graph).unwrap().is_some(), "{case}");
}

#[test]
fn demands_of_guards_and_axes_are_drawn() {
    for body in DEMANDING {
        let one = verified(&format!("[Rule(name: \"demands\", {body})]"));
        assert!(one.holds(), "{body}: {one:#?}");
    }
}

#[test]
fn an_axis_gives_the_lowest_possible_rank() {
    let joined = r#"[Rule(name: "joins", from: "(concat (unpack ?x) (unpack ?y) {axis: 1})", to: "(concat (unpack ?x) (unpack ?y) {axis: 1})")]"#;
    let ranks = verified(joined).coverage.ranks;
    assert!([2, 3, 4].iter().all(|rank| ranks.contains(rank)), "{ranks:?}");
    let soft =
        verified(r#"[Rule(name: "softmax", from: "(softmax ?x {axis: 1})", to: "(softmax ?x {axis: 1})")]"#);
    assert!([2, 3, 4, 5].iter().all(|rank| soft.coverage.ranks.contains(rank)), "{soft:#?}");
}

/// Equalities of real numbers of which only one side overflows `f64`.
const OVERFLOWING: &[(&str, &str)] = &[
    ("(log (softmax ?x {axis: ?n}))", "(log-softmax ?x {axis: ?n})"),
    ("(log (add (exp ?x) 1.0))", "(softplus ?x)"),
    ("(div (exp ?x) (reduce-sum (exp ?x) {axes: [0], keepdims: 1}))", "(softmax ?x {axis: 0})"),
    ("(div (exp ?x) (add (exp ?x) 1.0))", "(sigmoid ?x)"),
    ("(sub ?x (log (reduce-sum (exp ?x) {axes: [0], keepdims: 1})))", "(log-softmax ?x {axis: 0})"),
    ("(log (exp ?x))", "?x"),
    ("(log (sigmoid ?x))", "(neg (softplus (neg ?x)))"),
];

#[test]
fn a_rule_is_not_wrong_because_of_overflow_and_overflow_is_reported() {
    let mut overflowed = 0;
    for (from, to) in OVERFLOWING {
        let text = format!(
            r#"[Rule(name: "overflows", from: "{from}", to: "{to}", when: ["is-f32(?x)", "min-rank(?x, 1)"], assume: ["finite"])]"#
        );
        for seed in 0..6 {
            let one = verify::rule(&rule(&text), common::ops(), Settings { seed, ..Settings::default() });
            assert!(one.holds(), "{from} (seed {seed}): {one:#?}");
            let counted = one.coverage.features.contains_key(verify::OVERFLOW);
            assert_eq!(counted, one.coverage.overflow.is_some());
            overflowed += usize::from(counted);
        }
    }
    assert!(overflowed >= OVERFLOWING.len(), "{overflowed}");
}

#[test]
fn an_infinity_in_a_narrow_type_is_no_overflow_of_the_reference() {
    let one = verified(
        r#"[Rule(name: "narrow", from: "(cast (cast (exp ?x) {to: f16}) {to: f32})", to: "(exp ?x)", when: ["is-f32(?x)"])]"#,
    );
    assert!(matches!(one.verdict, Verdict::Wrong { .. }), "{one:#?}");
}

#[test]
fn integers_that_floats_cannot_hold_are_compared_and_printed_exactly() {
    let one = verified(
        r#"[Rule(name: "through", from: "(cast (cast ?x {to: f64}) {to: i64})", to: "?x", when: ["is-dtype(?x, i64)"])]"#,
    );
    let Verdict::Wrong { case, .. } = &one.verdict else { panic!("{one:#?}") };
    let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
    let what = verify::compare_case(&graph).unwrap().unwrap_or_else(|| panic!("{case}"));
    let numbers = |text: &str| -> Vec<i64> {
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '-');
        parts.filter_map(|part| part.parse().ok()).filter(|one: &i64| one.unsigned_abs() > 1 << 53).collect()
    };
    let beyond = numbers(&what);
    // The left side has lost the last bits of the right side, so they differ by one or two.
    assert!(matches!(beyond[..], [left, right] if left != right && left.abs_diff(right) < 1024), "{what}");
    assert!(numbers(case).contains(&beyond[1]), "{case}");
}

#[test]
fn a_side_that_overflows_differs_from_a_finite_one() {
    let case = "graph { x: f32[2] = const [70000.0, 1.0]; h = cast(x) {to: f16}; y = cast(h) {to: f32}; return left = x; return right = y }";
    let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}"));
    assert!(verify::compare_case(&graph).unwrap().is_some());
}

#[test]
fn a_small_factor_is_seen_in_narrow_types_and_casts_between_them_are_coarse() {
    for dtype in ["f16", "bf16", "f32"] {
        let rule = |to: &str| {
            format!(
                r#"[Rule(name: "factor", from: "(leaky-relu ?x {{alpha: 0.5}})", to: "(leaky-relu ?x {{alpha: {to}}})", when: ["is-dtype(?x, {dtype})"])]"#
            )
        };
        let one = verified(&rule("0.5"));
        assert!(one.holds() && !one.is_coarse(), "{one:#?}");
        assert!(matches!(verified(&rule("0.505")).verdict, Verdict::Wrong { .. }), "{dtype}");
    }
    let one = verified(
        r#"[Rule(name: "narrow", from: "(cast (relu ?x) {to: f16})", to: "(relu (cast ?x {to: f16}))", when: ["is-f32(?x)"])]"#,
    );
    assert!(one.holds() && one.is_coarse(), "{one:#?}");
}

#[test]
fn counterexamples_are_shrunk_until_nothing_can_be_removed() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(common::root().join("snapshots/shrunk"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (name, body) in BROKEN {
        let text = format!(r#"[Rule(name: "{}", {body})]"#, name.replace('_', "-"));
        let one = verified(&text);
        let Verdict::Wrong { case, what } = &one.verdict else { panic!("{name}: {one:#?}") };
        assert_eq!(one, verified(&text), "{name}");
        let graph = text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
        let shown = verify::compare_case(&graph).unwrap_or_else(|why| panic!("{why}\n{case}"));
        assert!(shown.is_some(), "{name} does not show it: {what}\n{case}");
        settings.bind(|| insta::assert_snapshot!(*name, case));
    }
}

#[test]
fn a_case_may_agree_and_may_not_have_inputs() {
    let compare = |text: &str| verify::compare_case(&text::parse(common::ops(), text).unwrap());
    let case = "graph { x: f32[2] = const [1.0, -1.0]; y = relu(x); z = relu(y); return left = y; return right = z }";
    assert_eq!(compare(case), Ok(None));
    let case = "graph { x: f32[2] = input; y = relu(x); return left = y; return right = x }";
    assert!(compare(case).unwrap_err().to_string().contains("`x` is an input"));
    let case = "graph { x: f32[2] = const [1.0, -1.0]; y = relu(x); return left = y }";
    assert_eq!(compare(case).unwrap_err().to_string(), "1 left and 0 right sides");
}

#[test]
fn a_rule_without_instances_fails() {
    let one = verify::rule(
        &rule(
            r#"[Rule(name: "never", from: "(relu ?x)", to: "(relu ?x)", when: ["rank(?x, 2)", "equal(rank-of(?x), 3)"])]"#,
        ),
        common::ops(),
        Settings { instances: 5, ..Settings::default() },
    );
    assert!(!one.holds());
    let Verdict::Uncovered { reasons, .. } = &one.verdict else { panic!("{one:#?}") };
    // A guard is reported as it is written, with the first values it refused.
    assert_eq!(reasons[0].guard, Some(1), "{reasons:?}");
    assert_eq!(reasons[0].text, "equal(rank-of(?x), 3): rank-of(?x) (2) is not 3");
}

/// Guards that demand numbers which would not be drawn otherwise: the left side, the right side, the guards.
const ASKING: &[(&str, &str, &str)] = &[
    ("(relu (relu ?x))", "(relu ?x)", r#""equal(dim(?x, 1), 77)""#),
    ("(relu (relu ?x))", "(relu ?x)", r#""rank(?x, 4)", "equal(dim(?x, 1), 64)", "equal(dim(?x, -1), 9)""#),
    ("(relu (relu ?x))", "(relu ?x)", r#""less(64, dim(?x, 0))""#),
    ("(relu (relu ?x))", "(relu ?x)", r#""divisible(dim(?x, 0), 24)""#),
    ("(relu (relu ?x))", "(relu ?x)", r#""equal(rank-of(?x), 6)""#),
    ("(relu (relu ?x))", "(relu ?x)", r#""min-rank(?x, 7)""#),
    (
        "(relu (relu (conv ?x ?w ?b {*a})))",
        "(relu (conv ?x ?w ?b {*a}))",
        r#""equal(dim(?x, 1), 64)", "less(63, dim(?w, 0))""#,
    ),
    (
        "(neg (neg (max-pool ?x {kernel: ?k, *a})))",
        "(max-pool ?x {kernel: ?k, *a})",
        r#""less(5, at(?k, 0))", "equal(at(?k, 1), 7)""#,
    ),
    ("(neg (neg (concat ?xs.. {axis: ?n})))", "(concat ?xs.. {axis: ?n})", r#""equal(count(?xs), 9)""#),
];

#[test]
fn a_number_in_a_guard_is_drawn() {
    for (from, to, when) in ASKING {
        let dtype = if from.contains("?xs") { "all-f32(?xs)" } else { "is-f32(?x)" };
        let one = verified(&format!(
            r#"[Rule(name: "asks", from: "{from}", to: "{to}", when: ["{dtype}", {when}])]"#
        ));
        assert!(one.holds(), "{when}: {one:#?}");
    }
}

#[test]
fn sizes_beyond_any_memory_are_refused_with_a_message() {
    let huge = "9223372036854775807";
    for (from, to, when, why) in [
        ("(reshape ?x {shape: [4294967296,4294967296]})", "?x", "", "attribute `shape` of `reshape`"),
        (
            "(relu (conv ?x ?w ?b {groups: 4294967296, *a}))",
            "(conv ?x ?w ?b {groups: 1, *a})",
            "",
            "attribute `groups` of `conv`",
        ),
        ("(max-pool ?x {kernel: [4294967296,1], *a})", "?x", "", "attribute `kernel` of `max-pool`"),
        ("(relu ?x)", "(relu (expand ?x {shape: [4294967296,4294967296]}))", "rank(?x, 0)", "4294967296"),
        (
            "(relu ?x)",
            "(relu (pad ?x 0.0 {pads: [4294967296,1]}))",
            "rank(?x, 1)",
            "elements, too many to evaluate",
        ),
        (
            "(reshape (reshape ?x {shape: ?_s}) {shape: ?t})",
            "(reshape ?x {shape: ?t})",
            "equal(dim(?x, 0), 150000)",
            "",
        ),
        (
            "(relu (concat ?x.. {axis: ?n}))",
            "(relu (concat ?x.. {axis: ?n}))",
            "equal(?n, 99999)",
            "no operands",
        ),
        ("(relu ?x)", "(lrn ?x {size: HUGE})", "rank(?x, 2)", ""),
        ("(relu ?x)", "?x", "equal(dim(?x, 0), HUGE)", "equal(dim(?x, 0), HUGE)"),
        ("(relu ?x)", "?x", "equal(shape-of(?x), [4294967296,2])", "4294967296"),
        ("(relu ?x)", "?x", "less(HUGE, product(shape-of(?x)))", "less("),
        (
            "(relu ?x)",
            "(reshape ?x {shape: zeros(mul(dim(?x, 0), 4294967296))})",
            "rank(?x, 1)",
            "128 at most",
        ),
    ] {
        let when = if when.is_empty() { String::new() } else { format!("\"{when}\"") };
        let text = format!(r#"[Rule(name: "huge", from: "{from}", to: "{to}", when: [{when}])]"#);
        let settings = Settings { instances: 10, ..Settings::default() };
        let one = verify::rule(&rule(&text.replace("HUGE", huge)), common::ops(), settings);
        match &one.verdict {
            Verdict::Uncovered { reasons, .. } => {
                assert!(
                    reasons.iter().any(|one| one.text.contains(&why.replace("HUGE", huge))),
                    "{from}: {reasons:?}"
                );
            }
            other => assert!(why.is_empty(), "{from} {to}: {other:?}"),
        }
    }
}

#[test]
fn a_counterexample_is_as_small_as_the_rule_allows() {
    for (from, to, parts) in [
        // An infinity is kept while everything around it goes.
        (
            "(add (add (mul ?x ?x) (mul 2.0 (mul ?x ?y))) (mul ?y ?y))",
            "(mul (add ?x ?y) (add ?x ?y))",
            vec!["x: f32[] = const [", "y: f32[] = const [", "inf]", "write `assume: [\"finite\"]`"],
        ),
        // A default and its rounding do not lead to each other without end.
        (
            "(leaky-relu (leaky-relu ?x {alpha: ?a}) {alpha: ?b})",
            "(leaky-relu ?x {alpha: mul(?a, ?b)})",
            vec!["x: f32[] = const [-1.0]", "leaky-relu(x) {alpha: -1.0}"],
        ),
        ("(sqrt (mul ?x ?x))", "?x", vec!["x: f32[] = const [-1.0]"]),
    ] {
        let rule = rule(&format!(r#"[Rule(name: "wrong", from: "{from}", to: "{to}")]"#));
        for seed in 0..4 {
            let settings = Settings { seed, ..Settings::default() };
            let one = verify::rule(&rule, common::ops(), settings);
            let Verdict::Wrong { case, .. } = &one.verdict else { panic!("{from}: {one:#?}") };
            assert!(parts.iter().all(|part| case.contains(part)), "{from}, seed {seed}: {case}");
        }
    }
}

/// Every literal of the shipped rules' convolutions is made large; a verdict must come for each.
#[test]
fn a_verdict_comes_for_any_number_in_a_rule() {
    let rules = common::rules();
    let wanted = |rule: &Rule| matches!(rule.stem(), "onednn" | "layout") && rule.name.contains("conv");
    let settings = Settings { instances: 4, tries: 100, shrink: true, ..Settings::default() };
    let mut made = 0;
    for rule in rules.rules().iter().filter(|rule| wanted(rule)) {
        for large in [1 << 32, i64::MAX, i64::MIN, 1 << 20] {
            for place in 0.. {
                let mut changed = (**rule).clone();
                let mut at = place;
                let done = changed.from.iter_mut().any(|side| enlarge_left(side, large, &mut at))
                    || changed.to.iter_mut().any(|side| enlarge_right(side, large, &mut at))
                    || changed.guards.iter_mut().any(|guard| enlarge(&mut guard.expr, large, &mut at));
                if !done {
                    break;
                }
                made += 1;
                changed.examples.clear();
                verify::rule(&changed, common::ops(), settings);
            }
        }
    }
    assert!(made > 100, "{made}");
}

/// Makes one attribute large, or adds a large one that is not written; `at` counts the places down.
fn enlarge_left(pattern: &mut Pattern, large: i64, at: &mut usize) -> bool {
    let Pattern::Op { op, children, attrs, .. } = pattern else { return false };
    for def in &op.attrs {
        for position in 0..2 {
            let value = match (&def.default, position) {
                (Some(Attr::Int(_)), 0) => Attr::Int(large),
                (Some(Attr::Ints(list)), position) if position < list.len() => {
                    let mut list = list.clone();
                    list[position] = large;
                    Attr::Ints(list)
                }
                _ => continue,
            };
            if *at == 0 {
                attrs.retain(|(name, _)| *name != def.name);
                attrs.push((def.name, AttrPattern::Literal(value)));
                return true;
            }
            *at -= 1;
        }
    }
    children.iter_mut().any(|child| enlarge_left(child, large, at))
}

fn enlarge_right(template: &mut Template, large: i64, at: &mut usize) -> bool {
    match template {
        Template::Each(_, Some((_, inner))) => enlarge_right(inner, large, at),
        Template::Op { children, attrs, .. } => {
            attrs.iter_mut().any(|(_, expr)| enlarge(expr, large, at))
                || children.iter_mut().any(|child| enlarge_right(child, large, at))
        }
        _ => false,
    }
}

fn enlarge(expr: &mut Expr, large: i64, at: &mut usize) -> bool {
    match expr {
        Expr::Literal(Attr::Int(value)) => {
            if *at == 0 {
                *value = large;
                return true;
            }
            *at -= 1;
            false
        }
        Expr::Call(_, arguments) => arguments.iter_mut().any(|one| enlarge(one, large, at)),
        _ => false,
    }
}

#[test]
fn lowered_ops_on_the_left_are_drawn_in_their_layouts() {
    for op in [
        "conv-direct",
        "conv-depthwise",
        "conv-depthwise-nhwc",
        "conv-first",
        "conv-narrow",
        "conv-winograd",
        "conv-strassen",
        "matmul-strassen",
        "matmul-packed",
    ] {
        let one = verified(&format!(
            r#"[Rule(name: "keep-{op}", from: "(native.{op} ?x.. {{*a}})", to: "(native.{op} ?x.. {{*a}})")]"#
        ));
        assert!(one.holds(), "{one:#?}");
    }
}

#[test]
fn sides_of_different_types_are_wrong() {
    let one = verified(r#"[Rule(name: "drop", from: "(transpose ?x {perm: ?p})", to: "?x")]"#);
    let Verdict::Wrong { what, case } = &one.verdict else { panic!("{one:#?}") };
    assert!(what.contains("type") || what.contains("value"), "{what}");
    text::parse(common::ops(), case).unwrap_or_else(|found| panic!("{found}\n{case}"));
}

#[test]
fn a_number_that_would_add_a_dimension_does_not_match() {
    use ovolo::egraph::{EGraph, Limits};
    let graph = |shape: &str| {
        let source = format!(
            "graph {{ x: f32[3] = input; three: f32[] = const [3.0]; sixth: f32{shape} = const [0.16666667]
            a = add(x, three); c = clip(a) {{min: 0.0, max: 6.0}}; m = mul(x, c); y = mul(m, sixth); return y }}"
        );
        let graph = text::parse(common::ops(), &source).unwrap_or_else(|found| panic!("{found}"));
        ovolo::verify::verify(graph).unwrap()
    };
    let rules = common::rules().select(&["fuse-hard-swish-clip".into()]).unwrap();
    let applied = |shape| {
        let mut egraph = EGraph::new(&graph(shape));
        egraph
            .saturate(&rules, Limits { rounds: 2, nodes: 100 }, &|| std::time::Duration::ZERO)
            .unwrap()
            .growth[0]
            .applied
    };
    assert_eq!((applied("[1]"), applied("[1,1]")), (1, 0));
}

/// Checks that random members of a model's e-graph all agree.
fn members_agree(name: &str, graph: &Graph, options: &Options, count: usize, reference: bool) {
    let members = verify::members(graph, options, count, 7, reference)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(members.list.len(), count);
    assert!(members.reference || !reference);
    for member in &members.list {
        assert!(member.program.is_none(), "{name}: {member:#?}");
    }
}

/// The case files of a folder in `tests`.
fn cases(folder: &str) -> Vec<PathBuf> {
    let root = common::root().join("tests").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ovolo"));
    files.sort();
    files
}

#[test]
fn every_member_of_the_small_cases_agrees_with_the_reference() {
    for (folder, name) in
        [("cases", "native"), ("cases", "superoptimise"), ("cases/superoptimise", "superoptimise")]
    {
        for path in cases(folder) {
            let graph = text::parse(common::ops(), &std::fs::read_to_string(&path).unwrap()).unwrap();
            members_agree(&path.display().to_string(), &graph, &pipeline(name, 2), 24, true);
        }
    }
}

fn load(path: &str, dims: &[(&str, usize)]) -> Graph {
    let dims = dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    let options = ImportOptions { dims, missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    onnx::load(common::registry().onnx(), common::root().join(path), &options).unwrap().graph
}

#[test]
fn every_member_of_whole_models_agrees() {
    let digits = load("examples/digits/digits.onnx", &[("N", 2)]);
    members_agree("digits", &digits, &options(2), 24, true);
    members_agree("digits", &digits, &pipeline("superoptimise", 2), 24, true);
    let nasrnn = load("tests/models/nasrnn.onnx", &[]);
    members_agree("nasrnn", &nasrnn, &options(2), 4, false);
    members_agree("nasrnn", &nasrnn, &pipeline("superoptimise", 2), 4, false);
    let networks = [
        ("squeezenet1_1", 48),
        ("mobilenet_v2", 32),
        ("efficientnet_b0", 32),
        ("resnet50", 32),
        ("resnext50_32x4d", 32),
        ("inception_v3", 96),
    ];
    for (name, size) in networks.into_iter().take(common::draws(networks.len(), 3)) {
        let graph = resized(&load(&format!("tests/models/{name}.onnx"), &[]), size);
        members_agree(name, &graph, &options(2), 3, true);
    }
}

#[test]
fn every_member_of_the_first_layer_of_a_transformer_agrees() {
    let layer = cut(&load("tests/models/bert_base.onnx", &[]), 1.9e9);
    members_agree("bert_base", &layer, &options(2), 3, true);
    members_agree("bert_base", &layer, &pipeline("superoptimise", 2), 2, true);
}

/// The part of a graph up to the first node by which `operations` operations are done, with everything it
/// depends on.
fn cut(graph: &Graph, operations: f64) -> Graph {
    let mut done = 0.0;
    let (last, _) = graph
        .nodes()
        .find(|(_, node)| {
            let operands: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
            done += (node.op.flops)(&node.attrs, &operands, &node.ty);
            done >= operations
        })
        .unwrap();
    let mut needed = vec![false; graph.len()];
    needed[last.index()] = true;
    for (id, node) in graph.nodes().collect::<Vec<_>>().into_iter().rev() {
        if needed[id.index()] {
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    let mut part = Graph::new();
    let mut made = std::collections::BTreeMap::new();
    for (id, node) in graph.nodes().filter(|(id, _)| needed[id.index()]) {
        let inputs = node.inputs.iter().map(|input| made[&input.index()]).collect();
        let new = match graph.constant(id) {
            Some(value) => part.add_constant(&node.name, value.clone()),
            None => part.add_node(Node { inputs, ..(**node).clone() }),
        };
        made.insert(id.index(), new);
    }
    part.add_output("cut", made[&last.index()]);
    part
}

#[test]
fn without_a_reference_members_are_compared_with_the_first_one() {
    let nasrnn = load("tests/models/nasrnn.onnx", &[]);
    let members = verify::members(&nasrnn, &options(2), 2, 7, false).unwrap();
    assert!(!members.reference && members.list[0].error == 0.0);
}

/// An image network for smaller images: every op is typed again.
fn resized(graph: &Graph, size: usize) -> Graph {
    let mut smaller = Graph::new();
    let mut types: Vec<TensorType> = Vec::new();
    for (id, node) in graph.nodes() {
        let ty = match graph.constant(id) {
            Some(_) => node.ty.clone(),
            None if node.op == op::INPUT => TensorType::plain(node.ty.dtype, [1, 3, size, size]),
            None => {
                let operands: Vec<&TensorType> =
                    node.inputs.iter().map(|input| &types[input.index()]).collect();
                node.op.result(&node.attrs, &operands).unwrap_or_else(|why| panic!("{}: {why}", node.name))
            }
        };
        let made = match graph.constant(id) {
            Some(value) => smaller.add_constant(&node.name, value.clone()),
            None => smaller.add_node(Node { ty: ty.clone(), ..(**node).clone() }),
        };
        assert_eq!(made, id);
        types.push(ty);
    }
    graph.outputs().for_each(|(name, id)| smaller.add_output(name, id));
    smaller
}

/// Rules about integers that are compared within a tolerance on some instances, because a side divides by the number of
/// elements of a mean, has a bound that is a multiple of a scale, or a function other than sums and products.
const ROUNDED: &[&str] = &[
    "dequantize-after-clip-of-i8",
    "dequantize-after-clip-of-u8",
    "mean-of-levels",
    "windows-mean-of-levels",
    "write-out-lstm-integer",
];

#[test]
fn rules_of_integers_are_compared_without_a_tolerance() {
    let rules = common::rules();
    let rules: Vec<_> = rules.rules().iter().filter(|rule| rule.stem() == "integer").cloned().collect();
    assert!(rules.len() > 30);
    for one in verify::rules(&rules, common::ops(), Settings::default(), 2, &|_| {}) {
        assert!(one.holds(), "{one:#?}");
        let rounded = ROUNDED.contains(&one.rule.as_str());
        assert_eq!(one.is_exact(), !rounded, "{one:#?}");
        assert_eq!(one.coverage.rounding.is_some(), rounded, "{one:#?}");
        // Means of a power of two of elements are exact.
        let exact = one.coverage.features.get(verify::EXACT).copied().unwrap_or(0);
        assert!(exact >= 20 || one.rule == "write-out-lstm-integer", "{one:#?}");
    }
}

//! Tests `rules check`: what it finds, and that it finds nothing in the shipped rules.
#![allow(clippy::unwrap_used)]

use ovolo::pass::pipeline::Pipeline;
use ovolo::rule::RuleSet;
use ovolo_proof::check::{self, Finding, Kind, Place};

fn pipelines() -> Vec<Pipeline> {
    let registry = crate::common::registry();
    registry
        .pipelines()
        .iter()
        .map(|(name, text)| Pipeline::read(&registry.scope(), name, text).unwrap())
        .collect()
}

/// Prints one line for each finding, with its places and the text there.
fn lines(findings: &[Finding], text: &str) -> String {
    let line = |finding: &Finding| {
        let place = |place: &Place| {
            let before = &text[..place.span.start.min(text.len())];
            let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
            format!(" [{}:{}:{column} {}]", place.file, before.matches('\n').count() + 1, place.text)
        };
        let places: String = finding.places.iter().map(place).collect();
        let Finding { kind, rule, message, help, .. } = finding;
        format!("{} {}: {message}{places}\n    {help}\n", kind.name(), rule.name)
    };
    findings.iter().map(line).collect()
}

fn snapshot(name: &str, text: String) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/check"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn every_kind_of_finding_is_found_with_both_places() {
    let text = r#"[
        Rule(name: "general", from: "(relu (relu ?x))", to: "(relu ?x)"),
        Rule(name: "special", from: "(relu (relu (neg ?x)))", to: "(relu (neg ?x))", when: ["is-f32(?x)"]),
        Rule(name: "forwards", from: "(neg (relu ?x))", to: "(relu (neg ?x))"),
        Rule(name: "backwards", from: "(relu (neg ?y))", to: "(neg (relu ?y))"),
        Rule(name: "drops-a-value", from: "(where ?c ?x ?x)", to: "?x"),
        Rule(name: "drops-one-on-purpose", from: "(where ?_c ?x ?x)", to: "?x", when: ["is-f32(?x)"]),
        Rule(name: "drops-a-rest", from: "(map (relu ?x) ?e.. {post: ?_p})", to: "(relu ?x)"),
        Rule(name: "drops-an-optional-operand", from: "(attention ?q ?k ?v ?m? {scale: 0.0})", to: "(attention ?q ?k ?v {scale: 1.0})"),
        Rule(name: "drops-other-attributes", from: "(softmax (neg ?x) {*a})", to: "(neg ?x)"),
        Rule(name: "computes-in-vain", from: "(exp (neg ?x))", to: "(exp ?x)", let: {"k": "rank-of(?x)"}),
        Rule(name: "flattens", from: "(concat ?xs.. (concat ?ys.. {axis: ?n}) ?zs.. {axis: ?n})", to: "(concat ?xs.. ?ys.. ?zs.. {axis: ?n})"),
        Rule(name: "flattens-the-first", from: "(concat (concat ?x ?y {axis: 1}) ?z {axis: 1})", to: "(concat ?x ?y ?z {axis: 1})"),
        Rule(name: "flattens-the-last", from: "(concat ?x (concat ?ys.. {axis: ?n}) {axis: ?n})", to: "(concat ?x ?ys.. {axis: ?n})"),
        Rule(name: "scale", from: "(relu (mul ?x ?s:0..))", to: "(mul (relu ?x) ?s)"),
        Rule(name: "scale-up-to-one", from: "(relu (mul ?y ?t:0..1))", to: "(mul (relu ?y) ?t)"),
        Rule(name: "drops-an-attribute", from: "(softmax (relu ?x) {axis: ?a})", to: "(softmax (relu ?x) {axis: 0})"),
        Rule(name: "changes-nothing", from: "(exp (softmax ?x {axis: 1}))", to: "(exp (softmax ?x {axis: 1}))"),
        Rule(name: "changes-nothing-of-each", from: "(concat ?xs.. {axis: ?n})", to: "(concat (each ?xs ?x ?x) {axis: ?k})", let: {"k": "?n"}),
        Rule(name: "swaps", from: "(add ?x (sub ?y ?z))", to: "(add (sub ?y ?z) ?x)"),
        Rule(name: "feeds-itself", from: "(sub ?x ?y)", to: "(neg (sub (sub ?x ?y) ?x))"),
        Rule(name: "shows", from: "(exp (relu ?x))", to: "(relu (exp ?x))"),
    ]"#;
    let examples = r#"[Examples(rule: "shows", examples: [
            Example(fires: "x: f32[4] = input; y = rleu(x); return y"),
            Example(refuses: "x: f32[4] = input; y: f32[5] = relu(x); return y"),
            Example(fires: "x: f32[4] = input; y = relu(x); z = exp(y); return z"),
        ])]"#;
    let files = [("mine.ron", text), ("examples/mine.ron", examples)];
    let set = RuleSet::read(crate::common::registry().vocabulary(), &files)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    findings.extend(check::pipelines(&set.rules()[..1], &pipelines()));
    snapshot("findings", lines(&findings, text));
}

#[test]
fn near_misses_are_not_findings() {
    let text = r#"[
        Rule(name: "asks-more", from: "(relu (relu ?x))", to: "(relu ?x)", when: ["is-f32(?x)"]),
        Rule(name: "special", from: "(relu (relu (neg ?x)))", to: "(relu (neg ?x))"),
        Rule(name: "another-result", from: "(relu (relu (exp ?x)))", to: "(exp ?x)", when: ["is-f32(?x)"]),
        Rule(name: "scale", from: "(relu (mul ?x ?s:0..1))", to: "(mul (relu ?x) ?s)"),
        Rule(name: "wider", from: "(relu (mul ?x ?s:0..2))", to: "(mul ?s (relu ?x))"),
        Rule(name: "along-one-axis", from: "(concat (concat ?x.. {axis: 0}) ?y.. {axis: 0})", to: "(concat ?x.. ?y.. {axis: 0})"),
        Rule(name: "along-the-other", from: "(concat (concat ?x.. {axis: 1}) ?y.. {axis: 1})", to: "(concat ?x.. ?y.. {axis: 1})"),
        Rule(name: "forwards", from: "(sub (neg ?x) ?y)", to: "(neg (add ?x ?y))"),
        Rule(name: "not-backwards", from: "(neg (add ?x ?y))", to: "(sub (neg ?y) ?x)"),
        Rule(name: "ends-by-a-guard", from: "(sub ?x ?y)", to: "(neg (sub (sub ?x ?y) ?x))", when: ["const(?x)"]),
        Rule(name: "regroups", from: "(mod (mod ?x ?y) ?z)", to: "(mod ?x (mod ?y ?z))"),
        Rule(name: "used-in-a-guard", from: "(where ?c ?x ?x)", to: "?x", when: ["const(?c)"]),
        Rule(name: "meant", from: "(map (relu ?x) ?_e.. {*_a})", to: "(relu ?x)"),
        Rule(name: "meant-optional", from: "(attention ?q ?k ?v ?_m? {scale: 0.0})", to: "(attention ?q ?k ?v {scale: 1.0})"),
        Rule(name: "computed-and-used", from: "(softmax (neg ?x) {axis: ?_a})", to: "(softmax ?x {axis: ?k})", let: {"k": "rank-of(?x)"}),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&check::rules(set.rules(), crate::common::ops(), &crate::common::rules()), text), "");
}

#[test]
fn operands_that_commute_are_compared_in_both_orders() {
    let pairs = [
        ("(mul (relu ?x) ?c:2)", "(mul ?c:2 (relu ?x))", "(relu (mul ?x ?c))"),
        ("(add (relu ?x) (neg ?y))", "(add (neg ?y) (relu ?x))", "(sub (relu ?x) ?y)"),
        // Here the order that is tried first binds too much.
        ("(add (mul ?x ?y) (relu ?y))", "(add (mul ?x ?y) (relu ?x))", ""),
    ];
    for (one, other, to) in pairs {
        let [to, other_to] = match to {
            "" => ["(relu ?y)", "(relu ?x)"],
            to => [to, to],
        };
        let when = "is-f32(?x)";
        let text = format!(
            "[Rule(name: \"one\", from: \"{one}\", to: \"{to}\"), Rule(name: \"other\", from: \"{other}\", to: \"{other_to}\", when: [\"{when}\"])]"
        );
        let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", &text)])
            .unwrap_or_else(|errors| panic!("{errors}"));
        let found = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
        assert!(found.iter().any(|one| one.kind == Kind::Subsumed && one.rule.name == "other"), "{found:#?}");
    }
}

#[test]
fn absurd_attributes_neither_panic_nor_take_long() {
    let text = r#"[
        Rule(name: "into-a-pad", from: "(relu (pad ?x ?v {pads: ?p}))", to: "(pad (relu ?x) (relu ?v) {pads: ?p})"),
        Rule(name: "out-of-a-pad", from: "(pad (relu ?x) ?v {pads: ?p})", to: "(pad (relu ?x) ?v {pads: ?p})"),
        Rule(name: "any-pad", from: "(pad (relu ?x) ?v {*p})", to: "(relu (pad (relu ?x) ?v {*p}))"),
        Rule(name: "too-large", from: "(reshape ?x {shape: [9223372036854775807,2]})", to: "?x"),
        Rule(name: "too-large-in-all", from: "(reshape ?x {shape: [100003,100003,100003,100003]})", to: "?x"),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let start = std::time::Instant::now();
    let findings = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    assert_eq!(
        findings.iter().map(|one| (one.kind, &*one.rule.name)).collect::<Vec<_>>(),
        [(Kind::Idle, "out-of-a-pad"),]
    );
    check::types(set.rules(), 1, &|_| ());
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn what_can_never_match_is_found() {
    let guards = [
        "equal(?n, 1)\", \"is-f32(?x)\", \"equal(?n, 2)",
        "less(?n, ?m)\", \"less(?m, ?n)",
        "less(?n, ?m)\", \"less(?m, dim(?x, 0))\", \"at-most(dim(?x, 0), ?n)",
        "not-equal(?n, ?m)\", \"equal(?m, ?n)",
        "less(?n, ?n)",
        "less(4, dim(?x, 1))\", \"at-most(dim(?x, 1), 4)",
        "rank(?x, 2)\", \"min-rank(?x, 3)",
        "rank(?x, 2)\", \"equal(dim(?x, 2), 1)",
        "shape-is(?x, [2,3])\", \"rank(?x, 3)",
        "is-f32(?x)\", \"is-dtype(?x, i64)",
        "const(?x)\", \"not(const(?x))",
        "plain(?x)\", \"layout-is(?x, nhwc)",
        "divisible(dim(?x, 1), 16)\", \"equal(dim(?x, 1), 24)",
    ];
    let mut text = String::from("[\n");
    for (at, guards) in guards.iter().enumerate() {
        let from = "(arg-max ?x {axis: ?n, keepdims: ?m, *_a})";
        text += &format!(
            "    Rule(name: \"guards-{at}\", from: \"{from}\", to: \"?x\", when: [\"{guards}\"]),\n"
        );
    }
    text += r#"
    Rule(name: "integer-times-float", from: "(matmul (cast ?x {to: i32}) ?w)", to: "?x", when: ["is-f32(?w)"]),
    Rule(name: "not-of-numbers", from: "(not (relu ?x))", to: "?x"),
    Rule(name: "images-of-three-dimensions", from: "(conv ?x ?w ?b {*_a})", to: "?x", when: ["rank(?x, 3)"]),
    Rule(name: "a-vector-of-two-dimensions", from: "(conv ?x (relu ?b) ?b {*_a})", to: "?x"),
    Rule(name: "one-type-two-ways", from: "(add (cast ?x {to: f16}) ?y)", to: "?x", when: ["same-type(?x, ?y)", "is-f32(?x)"]),
]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", &text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    findings.retain(|finding| finding.kind == Kind::Impossible);
    assert_eq!(findings.len(), set.rules().len());
    snapshot("impossible", lines(&findings, &text));
}

#[test]
fn rules_that_can_match_are_not_called_impossible() {
    let text = r#"[
        Rule(name: "either", from: "(relu ?x)", to: "?x", when: ["any(rank(?x, 2), rank(?x, 3))", "rank(?x, 3)"]),
        Rule(name: "where-it-is-there", from: "(attention ?q ?k ?v ?m? {scale: ?_s})", to: "?q", when: ["rank(?m, 2)", "rank(?m, 3)", "rank(?k, 4)", "rank(?v, 4)"]),
        Rule(name: "between", from: "(relu ?x)", to: "?x", when: ["less(1, dim(?x, 0))", "less(dim(?x, 0), 3)", "equal(dim(?x, 0), 2)", "divisible(2, dim(?x, 0))"]),
        Rule(name: "at-the-bound", from: "(relu ?x)", to: "?x", when: ["at-most(dim(?x, 0), 4)", "at-most(4, dim(?x, 0))", "not-equal(dim(?x, 0), 5)"]),
        Rule(name: "not-asked", from: "(relu ?x)", to: "?x", when: ["not(equal(dim(?x, 3), 1))", "rank(?x, 2)"]),
        Rule(name: "many-dimensions", from: "(relu ?x)", to: "?x", when: ["min-rank(?x, 9)", "rank(?x, 10)"]),
        Rule(name: "a-condition", from: "(where (not ?c) ?x ?y)", to: "(where ?c ?y ?x)"),
        Rule(name: "another-type", from: "(add (cast ?x {to: ?t}) ?y)", to: "?y", when: ["is-f32(?x)", "is-dtype(?y, i64)", "is-dtype(?y, ?t)"]),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    findings.retain(|finding| finding.kind == Kind::Impossible);
    assert_eq!(lines(&findings, text), "");
}

#[test]
fn reversed_pairs_are_findings_unless_both_ship() {
    let set = crate::common::rules();
    let pair = check::rules(set.rules(), crate::common::ops(), &crate::common::rules())
        .into_iter()
        .find(|finding| finding.kind == Kind::Undone)
        .unwrap();
    assert!(pair.is_note());
    let text = r#"[
        Rule(name: "one-way", from: "(neg (relu ?x))", to: "(relu (neg ?x))"),
        Rule(name: "other-way", from: "(relu (neg ?y))", to: "(neg (relu ?y))"),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let found = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    assert!(found.len() == 1 && found[0].kind == Kind::Undone && !found[0].is_note(), "{found:?}");
}

#[test]
fn rules_are_used_by_name_or_by_file_and_fire_or_do_not() {
    let text = r#"[
        Rule(name: "one", from: "(relu (relu ?x))", to: "(relu ?x)"),
        Rule(name: "two", from: "(neg (neg ?x))", to: "?x"),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let pipeline = |rules: &str| {
        let text = format!(
            r#"Pipeline(name: "p", passes: [Rewrite(name: "r", rules: [{rules}], rounds: 1, nodes: 10), Extract(), Plan()], backends: ["native"])"#
        );
        vec![
            Pipeline::read(&crate::common::registry().scope(), "p.ron", &text)
                .unwrap_or_else(|errors| panic!("{errors}")),
        ]
    };
    let lonely = |rules| -> Vec<String> {
        check::pipelines(set.rules(), &pipeline(rules)).iter().map(|one| one.rule.name.clone()).collect()
    };
    assert_eq!(lonely(r#""one""#), ["two"]);
    assert!(lonely(r#""mine""#).is_empty());
    assert_eq!(lonely(r#""another""#), ["one"], "a file without used rules is one finding");
    let fired = [("one".to_owned(), 1), ("two".to_owned(), 0)].into_iter().collect();
    let idle = check::corpus(set.rules(), &fired, 3);
    assert_eq!(idle.len(), 1);
    assert_eq!((idle[0].kind, idle[0].rule.name.as_str()), (Kind::NeverFires, "two"));
}

#[test]
fn nothing_is_found_in_the_shipped_rules() {
    let set = crate::common::rules();
    let mut findings = check::rules(set.rules(), crate::common::ops(), &crate::common::rules());
    findings.extend(check::pipelines(set.rules(), &pipelines()));
    findings.extend(check::types(set.rules(), 2, &|_| ()));
    findings.retain(|finding| !finding.is_note());
    assert!(findings.is_empty(), "{}", lines(&findings, ""));
    let lawless: Vec<&str> =
        set.rules().iter().filter(|rule| rule.doc.is_empty()).map(|rule| rule.name.as_str()).collect();
    assert!(lawless.is_empty(), "rules without a law above them: {lawless:?}");
}

#[test]
fn a_law_applies_to_all_rules_up_to_the_next_blank_line() {
    let text = r#"// The file.
    [
        // Twice is
        // once.
        Rule(name: "first", from: "(relu (relu ?x))", to: "(relu ?x)"), // not a law
        // Another.
        Rule(name: "second", from: "(neg (neg ?x))", to: "?x"),
        Rule(name: "third", from: "(not (not ?x))", to: "?x"),

        Rule(name: "fourth", from: "(abs (abs ?x))", to: "(abs ?x)"),
        // Of nothing.

        Rule(name: "fifth", from: "(abs (neg ?x))", to: "(abs ?x)"),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let laws: Vec<&str> = set.rules().iter().map(|rule| rule.doc.as_str()).collect();
    assert_eq!(laws, ["Twice is once.", "Another.", "Another.", "", ""]);
}

#[test]
fn sides_of_different_types_are_found_with_both_places() {
    let text = r#"[
        Rule(name: "right", from: "(transpose (relu ?x) {perm: ?p})", to: "(relu (transpose ?x {perm: ?p}))"),
        Rule(name: "shape", from: "(transpose ?x {perm: [1,0]})", to: "?x"),
        Rule(name: "rank", from: "(reduce-sum ?x {axes: [0], keepdims: 1})", to: "(reduce-sum ?x {axes: [0], keepdims: 0})"),
        Rule(name: "element-type", from: "(cast ?x {to: f16})", to: "?x", when: ["is-f32(?x)"]),
        Rule(name: "layout", from: "(relu ?x)", to: "(pack (relu ?x) {layout: nChw8c})", when: ["rank(?x, 4)", "plain(?x)"]),
        Rule(name: "now-and-then", from: "(add ?x ?y)", to: "?x", when: ["value-is(?y, 0.0)"]),
        Rule(
            name: "the-second-of-two",
            from: ["(relu ?x)", "(reshape ?x {shape: ?s})"],
            to: ["(relu ?x)", "(relu ?x)"],
        ),
        Rule(name: "no-type", from: "(relu ?x)", to: "(transpose ?x {perm: [0,2,1]})", when: ["rank(?x, 2)"]),
        Rule(name: "no-type-of-let", from: "(softmax ?x {axis: ?a})", to: "(softmax ?x {axis: ?k})", let: {"k": "add(rank-of(?x), ?a)"}),
        Rule(name: "no-left-side", from: "(relu ?x)", to: "(neg ?x)", when: ["rank(?x, 2)", "rank(?x, 3)"]),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", text)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let one = check::types(set.rules(), 1, &|_| ());
    assert_eq!(one, check::types(set.rules(), 3, &|_| ()));
    snapshot("types", lines(&one, text));
}

#[test]
fn rules_that_round_more_than_a_pipeline_allows_are_found() {
    let rounds = r#"[
        // In fewer bits.
        Rule(name: "fewer-bits", precision: "bf16", from: "(relu ?x)", to: "(cast (relu (cast ?x {to: bf16})) {to: f32})", when: ["is-f32(?x)"]),
    ]"#;
    let set = RuleSet::read(crate::common::registry().vocabulary(), &[("mine.ron", rounds)])
        .unwrap_or_else(|errors| panic!("{errors}"));
    let found = |precision: &str| {
        let text = format!(
            r#"Pipeline(name: "p", passes: [Rewrite(name: "r", rules: ["mine"]), Extract(), Plan()], backends: ["native"], precision: "{precision}")"#
        );
        let pipeline = Pipeline::read(&crate::common::registry().scope(), "p.ron", &text)
            .unwrap_or_else(|errors| panic!("{errors}"));
        let findings = check::pipelines(set.rules(), &[pipeline]);
        findings.iter().map(|one| format!("{}: {}", one.kind.name(), one.message)).collect::<Vec<_>>()
    };
    assert_eq!(
        found("f32"),
        ["too-coarse: the rule rounds to bf16, but the precision of pipeline `p` is f32"]
    );
    assert_eq!(found("bf16"), Vec::<String>::new());
}

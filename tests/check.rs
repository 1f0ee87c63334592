//! `rules check`: what it finds, and that the shipped rules give it nothing to find.
#![allow(clippy::unwrap_used)]

use ovolo::audit::check::{self, Finding, Kind};
use ovolo::pass::pipeline::{Pipeline, SHIPPED};
use ovolo::rule::{self, RuleSet};

fn pipelines() -> Vec<Pipeline> {
    SHIPPED.iter().map(|(name, text)| Pipeline::read(name, text).unwrap()).collect()
}

fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let other = finding.other.as_ref().map(|other| format!(" [{}:{}]", other.file, other.line));
        let rule = &finding.rule;
        let other = other.unwrap_or_default();
        format!(
            "{} {} {}:{}{other}: {}\n",
            finding.kind.name(),
            rule.name,
            rule.file,
            rule.line,
            finding.message
        )
    };
    findings.iter().map(line).collect()
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
        Rule(name: "computes-in-vain", from: "(exp (neg ?x))", to: "(exp ?x)", let: { k: "rank-of(?x)" }),
        Rule(name: "flattens", from: "(concat ?xs.. (concat ?ys.. {axis: ?n}) ?zs.. {axis: ?n})", to: "(concat ?xs.. ?ys.. ?zs.. {axis: ?n})"),
        Rule(name: "flattens-the-first", from: "(concat (concat ?x ?y {axis: 1}) ?z {axis: 1})", to: "(concat ?x ?y ?z {axis: 1})"),
        Rule(name: "flattens-the-last", from: "(concat ?x (concat ?ys.. {axis: ?n}) {axis: ?n})", to: "(concat ?x ?ys.. {axis: ?n})"),
        Rule(name: "scale", from: "(relu (mul ?x ?s:0..))", to: "(mul (relu ?x) ?s)"),
        Rule(name: "scale-up-to-one", from: "(relu (mul ?y ?t:0..1))", to: "(mul (relu ?y) ?t)"),
        Rule(name: "drops-an-attribute", from: "(softmax (relu ?x) {axis: ?a})", to: "(softmax (relu ?x) {axis: 0})"),
    ]"#;
    let set = RuleSet::read(&[("mine.ron", text)]).unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules());
    findings.extend(check::pipelines(&set.rules()[..1], &pipelines()));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/check"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("findings", lines(&findings)));
}

#[test]
fn what_is_nearly_a_finding_is_none() {
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
        Rule(name: "used-in-a-guard", from: "(where ?c ?x ?x)", to: "?x", when: ["const(?c)"]),
        Rule(name: "meant", from: "(map (relu ?x) ?_e.. {*_a})", to: "(relu ?x)"),
        Rule(name: "meant-optional", from: "(attention ?q ?k ?v ?_m? {scale: 0.0})", to: "(attention ?q ?k ?v {scale: 1.0})"),
        Rule(name: "computed-and-used", from: "(softmax (neg ?x) {axis: ?_a})", to: "(softmax ?x {axis: ?k})", let: { k: "rank-of(?x)" }),
    ]"#;
    let set = RuleSet::read(&[("mine.ron", text)]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&check::rules(set.rules())), "");
}

#[test]
fn rules_are_used_by_name_or_by_file_and_fire_or_do_not() {
    let text = r#"[
        Rule(name: "one", from: "(relu (relu ?x))", to: "(relu ?x)"),
        Rule(name: "two", from: "(neg (neg ?x))", to: "?x"),
    ]"#;
    let set = RuleSet::read(&[("mine.ron", text)]).unwrap_or_else(|errors| panic!("{errors}"));
    let pipeline = |rules: &str| {
        let text = format!(
            r#"Pipeline(name: "p", passes: [Rewrite(name: "r", rules: [{rules}], rounds: 1, nodes: 10), Extract(), Plan()], backends: ["native"])"#
        );
        vec![Pipeline::read("p.ron", &text).unwrap_or_else(|errors| panic!("{errors}"))]
    };
    let lonely = |rules| -> Vec<String> {
        check::pipelines(set.rules(), &pipeline(rules)).iter().map(|one| one.rule.name.clone()).collect()
    };
    assert_eq!(lonely(r#""one""#), ["two"]);
    assert!(lonely(r#""mine""#).is_empty());
    let fired = [("one".to_owned(), 1), ("two".to_owned(), 0)].into_iter().collect();
    let idle = check::corpus(set.rules(), &fired, 3);
    assert_eq!(idle.len(), 1);
    assert_eq!((idle[0].kind, idle[0].rule.name.as_str()), (Kind::NeverFires, "two"));
}

#[test]
fn the_shipped_rules_have_a_point() {
    let set = RuleSet::read(rule::SHIPPED).unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules());
    findings.extend(check::pipelines(set.rules(), &pipelines()));
    findings.retain(|finding| finding.kind != Kind::Undone);
    assert!(findings.is_empty(), "{}", lines(&findings));
}

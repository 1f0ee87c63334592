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
fn the_shipped_rules_have_a_point() {
    let set = RuleSet::read(rule::SHIPPED).unwrap_or_else(|errors| panic!("{errors}"));
    let mut findings = check::rules(set.rules());
    findings.extend(check::pipelines(set.rules(), &pipelines()));
    findings.retain(|finding| finding.kind != Kind::Undone);
    assert!(findings.is_empty(), "{}", lines(&findings));
}

//! The lists of fields that the reference and editors show are those that the readers know.
#![allow(clippy::unwrap_used)]

use ovolo::registry::Registry;
use ovolo::rule::{Example, Rule, RuleSet};
use ovolo::{Pipeline, error::Diagnostics};

/// Returns the fields that the message about an unknown one lists, one list for each struct.
fn listed(found: &Diagnostics) -> Vec<Vec<String>> {
    let lists =
        found.iter().flat_map(|one| &one.notes).filter_map(|note| note.strip_prefix("help: known are "));
    lists.map(|list| list.split(", ").map(str::to_owned).collect()).collect()
}

fn names(fields: &[(&str, &str)]) -> Vec<String> {
    fields.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn every_field_of_rules_and_examples_has_a_meaning() {
    let files = [
        ("rules/a.ron", "[Rule(nonesuch: 1, name: \"a\", from: \"(relu ?x)\", to: \"?x\")]"),
        ("rules/examples/a.ron", "[Examples(rule: \"a\", examples: [Example(nonesuch: 1)])]"),
    ];
    let found = RuleSet::read(Registry::new().vocabulary(), &files).unwrap_err();
    let lists = listed(&found);
    let [rule, example] = &lists[..] else { panic!("{found}") };
    // The field for examples in old files is an error.
    let rule: Vec<String> = rule.iter().filter(|name| *name != "examples").cloned().collect();
    assert_eq!(rule, names(Rule::FIELDS));
    assert_eq!(*example, names(Example::FIELDS));
}

#[test]
fn pipelines_and_passes_list_their_fields() {
    let registry = Registry::new();
    let passes = registry.catalog().passes.iter();
    let (mut written, mut wanted) = (String::new(), vec![Pipeline::fields()]);
    for (name, kind) in passes.filter(|(_, kind)| kind.fields().len() > 1) {
        written.push_str(&format!("{name}(nonesuch: 1), "));
        wanted.push(kind.fields());
    }
    let text = format!("Pipeline(nonesuch: 1, passes: [{written}])");
    let found = Pipeline::read(&registry.scope(), "p.ron", &text).unwrap_err();
    assert_eq!(listed(&found), wanted);
    assert_eq!(registry.catalog().passes.get("Resident").unwrap().fields(), ["device"]);
}

//! The lists of fields that the reference and editors show are those that the readers know.
#![allow(clippy::unwrap_used)]

use ovolo::registry::Registry;
use ovolo::rule::{Example, Rule, RuleSet};
use ovolo::{Pipeline, error::Diagnostics};
use std::collections::{BTreeMap, BTreeSet};

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

/// Returns what the tables of settings in `rules/README.md` tell: the settings of each pass, extractor and cost model.
fn told() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(crate::common::root().join("rules/README.md")).unwrap();
    let names =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for table in
        page.split("\n\n").filter(|block| block.lines().next().is_some_and(|row| row.contains("| Setting |")))
    {
        let mut current = String::new();
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split('|').collect();
            if let [name] = &names(cells[1])[..] {
                current.clone_from(name);
            }
            for setting in names(cells[2]) {
                assert!(told.entry(current.clone()).or_default().insert(setting), "twice: {row}");
            }
        }
    }
    told
}

#[test]
fn the_page_on_rules_tells_the_settings_of_passes_extractors_and_cost_models() {
    let registry = Registry::new();
    let catalog = registry.catalog();
    let set = |fields: &[&str]| fields.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let mut wanted = BTreeMap::from([("Pipeline".to_owned(), set(Pipeline::fields()))]);
    wanted.extend(catalog.passes.iter().map(|(name, kind)| (name.to_owned(), set(kind.fields()))));
    let camel = |name: &str| -> String {
        let words = name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
        words.collect()
    };
    let kinds = catalog.extractors.names().map(|name| ("extractor", name));
    for (setting, name) in kinds.chain(catalog.pricings.names().map(|name| ("cost", name))) {
        // An unknown setting is answered with the known ones.
        let name = camel(name);
        let text = format!("Pipeline(passes: [Extract({setting}: {name}(nonesuch: 1))])");
        let found = Pipeline::read(&registry.scope(), "p.ron", &text).unwrap_err();
        let helps = found.iter().flat_map(|one| &one.notes).filter_map(|note| {
            note.strip_prefix("help: known are ").or_else(|| note.strip_prefix("help: known is "))
        });
        let known: BTreeSet<String> =
            helps.flat_map(|list| list.split(", ")).map(|one| one.trim_matches('`').to_owned()).collect();
        if !known.is_empty() {
            wanted.insert(name, known);
        }
    }
    let mut told = told();
    if !catalog.extractors.names().any(|name| name == "ilp") {
        assert!(
            told.remove("Ilp").is_some(),
            "the page tells of the extractor `ilp`, which this build lacks"
        );
    }
    assert_eq!(told, wanted);
}

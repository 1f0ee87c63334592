//! The shipped files: what the server reads of their tokens is what the framework reads.

use crate::client::{Client, position, registry};
use ovolo::rule::RuleSet;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

#[test]
fn rules_have_the_names_and_the_variables_that_the_framework_reads() {
    let registry = registry();
    let mut client = Client::new("shipped", &[]);
    let (mut variables, mut exact) = (0, 0);
    for (name, text) in registry.rules().iter() {
        let set = RuleSet::read(registry.vocabulary(), &[(name, text)]).unwrap();
        let place = client.open(name, text);
        let found =
            client.ask("textDocument/documentSymbol", json!({ "textDocument": place["textDocument"] }));
        let names: BTreeSet<&str> =
            found.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        for rule in set.rules() {
            assert!(names.contains(rule.written.as_str()), "{}: {names:?}", rule.written);
            for (written, span) in &rule.places.variables {
                let sign = usize::from(text[span.start..].starts_with(['?', '*']));
                let name = written[1..].trim_end_matches(['.', '?']);
                let at = span.start + sign;
                // What a row puts in has no place of its own.
                if !text[at..].starts_with(name) || at == span.start && text[..at].ends_with('$') {
                    continue;
                }
                let mut ask = place.clone();
                ask["position"] = position(text, at);
                let found = client.ask("textDocument/definition", ask);
                let [first] = &found.as_array().unwrap()[..] else { panic!("{}: {written}", rule.name) };
                // A variable that stands in two ops is bound by the outer one, and found at the first place.
                let sides = rule.places.from.iter().chain([span]).filter(|side| {
                    let starts =
                        text[side.start..side.end].match_indices(name).map(|(at, _)| side.start + at);
                    starts.clone().any(|at| first["range"]["start"] == position(text, at))
                });
                assert!(sides.count() > 0, "{}: {written}: {first}", rule.name);
                exact += usize::from(first["range"]["start"] == position(text, at));
                variables += 1;
            }
        }
    }
    assert!(
        variables > 1000 && exact * 10 > variables * 9,
        "{variables} variables, {exact} at the very place"
    );
}

#[test]
fn files_have_their_form_and_no_mistakes() {
    let registry = registry();
    let mut client = Client::new("form-of-shipped", &[]);
    let files = registry.rules().iter().chain(registry.examples().iter()).chain(registry.pipelines().iter());
    for (name, text) in files {
        let place = client.open(name, text);
        let options = json!({ "tabSize": 4, "insertSpaces": true });
        let ask = json!({ "textDocument": place["textDocument"], "options": options });
        assert_eq!(client.ask("textDocument/formatting", ask), json!([]), "{name}");
    }
    // All files are open, so each is told with all others.
    let is_mistake = |one: &Json| one["severity"] == 1 && one["code"].is_null();
    for (name, _) in registry.rules().iter().chain(registry.examples().iter()) {
        let list = client.messages(name, |_| true);
        assert!(!list.iter().any(is_mistake), "{name}: {list:#?}");
    }
}

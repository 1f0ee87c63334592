//! Definitions and references.

use crate::client::{Client, position};
use serde_json::{Value as Json, json};

const RULES: &str = "[Rule(
    name: \"double-$op\",
    for_each: {\"op\": [\"sin\", \"cos\"]},
    from: \"(add ($op ?x) ($op ?x))\",
    to: \"(mul ($op ?x) 2.0)\",
    when: [\"is-f32(?x)\"],
)]
";
const EXAMPLES: &str = "[Examples(rule: \"double-$op\", examples: [
    Example(refuses: \"x: f16[2] = input; y = $op(x); z = add(y, y); return z\", because: \"is-f32(?x)\"),
])]
";
const PIPELINE: &str = "Pipeline(name: \"p\", passes: [Rewrite(name: \"a\", rules: [\"double-sin\", \"mine\", \"double-$op\"])])";

fn client(name: &str) -> Client {
    Client::new(
        name,
        &[("rules/mine.ron", RULES), ("rules/examples/mine.ron", EXAMPLES), ("p.ron", PIPELINE)],
    )
}

/// Returns the files and positions of some places.
fn places(client: &Client, found: &Json) -> Vec<(String, Json)> {
    let prefix = client.uri("");
    let name = |one: &Json| one["uri"].as_str().unwrap().strip_prefix(&prefix).unwrap().to_owned();
    found.as_array().unwrap().iter().map(|one| (name(one), one["range"]["start"].clone())).collect()
}

fn defined(client: &mut Client, name: &str, text: &str, at: &str) -> Vec<(String, Json)> {
    let text = text.replacen(at, &at.replacen(&at[1..], &format!("‸{}", &at[1..]), 1), 1);
    let place = client.open(name, &text);
    let found = client.ask("textDocument/definition", place);
    places(client, &found)
}

fn found(name: &str, text: &str, wanted: &str, skip: usize) -> (String, Json) {
    (name.to_owned(), position(text, text.find(wanted).unwrap() + skip))
}

#[test]
fn variables_keys_and_rules_lead_to_where_they_are_made() {
    let mut client = client("definition");
    let c = &mut client;
    assert_eq!(defined(c, "rules/mine.ron", RULES, "x)\"]"), [found("rules/mine.ron", RULES, "?x", 1)]);
    assert_eq!(
        defined(c, "rules/mine.ron", RULES, "op ?x) 2.0"),
        [found("rules/mine.ron", RULES, "\"op\"", 1)]
    );
    let rule = found("rules/mine.ron", RULES, "double", 0);
    assert_eq!(defined(c, "rules/examples/mine.ron", EXAMPLES, "double"), std::slice::from_ref(&rule));
    // The reason of an example names variables of the rule.
    let variable = found("rules/mine.ron", RULES, "?x", 1);
    assert_eq!(defined(c, "rules/examples/mine.ron", EXAMPLES, "x)\""), [variable]);
    assert_eq!(defined(c, "p.ron", PIPELINE, "double-sin"), [rule]);
    let file = ("rules/mine.ron".to_owned(), json!({ "line": 0, "character": 0 }));
    assert_eq!(defined(c, "p.ron", PIPELINE, "mine"), [file]);
}

#[test]
fn references_of_a_rule_are_in_rules_examples_and_pipelines() {
    let mut client = client("references");
    let mut place = client.open("rules/mine.ron", &RULES.replace("double", "dou‸ble"));
    place["context"] = json!({ "includeDeclaration": true });
    let found = client.ask("textDocument/references", place);
    let files: Vec<String> = places(&client, &found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(files, ["rules/mine.ron", "rules/examples/mine.ron", "p.ron"]);
}

#[test]
fn a_function_leads_to_its_row() {
    let table = "[Function(name: \"cube\", doc: \"x to the power 3\", formula: \"x * x * x\")]";
    let mut client = Client::new("row", &[("ops/mine.ron", table)]);
    let found = defined(&mut client, "a.ron", "[Rule(from: \"(cube ?x)\")]", "cube");
    assert_eq!(found, [self::found("ops/mine.ron", table, "cube", 0)]);
}

#[test]
fn the_places_of_a_name_in_its_file_are_highlighted() {
    let mut client = client("highlight");
    let place = client.open("rules/mine.ron", &RULES.replace("is-f32(?x)", "is-f32(?‸x)"));
    let found = client.ask("textDocument/documentHighlight", place);
    assert_eq!(found.as_array().unwrap().len(), 4);
}

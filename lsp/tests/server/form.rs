//! Formatting, and the structure of a file.

use crate::client::{Client, edited};
use ovolo::ron::{self, Style};
use serde_json::{Value as Json, json};

const ROUGH: &str = "// é
[
    Rule(name: \"double\", from: \"(add ?x ?x)\", to: \"(mul ?x 2.0)\"),
  Rule(name:   \"same\",
     from: \"(relu   (relu ?x))\", to: \"(relu ?x)\"),

    Rule(name: \"last\", from: \"(abs (abs ?x))\", to: \"(abs ?x)\"),
]
";

#[test]
fn a_file_is_formatted_as_by_the_command_and_only_where_it_must_be() {
    let mut client = Client::new("format", &[]);
    let place = client.open("rules/mine.ron", ROUGH);
    let options = json!({ "tabSize": 2, "insertSpaces": false });
    let ask = json!({ "textDocument": place["textDocument"], "options": options });
    let edits = client.ask("textDocument/formatting", ask.clone());
    let formatted = ron::format("mine.ron", ROUGH, Style::of).unwrap();
    assert_eq!(edited(ROUGH, edits.as_array().unwrap()), formatted);
    // The first rule and what comes after the second one stay.
    assert_eq!(edits[0]["range"]["start"], json!({ "line": 3, "character": 0 }));
    assert_eq!(edits[0]["range"]["end"], json!({ "line": 5, "character": 0 }));
    client.change("rules/mine.ron", None, &formatted);
    assert_eq!(client.ask("textDocument/formatting", ask.clone()), json!([]));
    // A text that is not RON is left alone.
    client.change("rules/mine.ron", None, "[Rule(name: \"a\"");
    assert_eq!(client.ask("textDocument/formatting", ask), json!([]));
}

#[test]
fn the_structure_of_a_file_has_rules_examples_and_passes() {
    let mut client = Client::new("structure", &[]);
    let mut names = |name: &str, text: &str| {
        let place = client.open(name, text);
        let ask = json!({ "textDocument": place["textDocument"] });
        client.ask("textDocument/documentSymbol", ask)
    };
    let list = |found: &Json| -> Vec<String> {
        found.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list(&names("rules/mine.ron", ROUGH)), ["double", "same", "last"]);
    let examples = "[Examples(rule: \"double\", examples: [Example(fires: \"x\")])]";
    assert_eq!(list(&names("rules/examples/mine.ron", examples)), ["double"]);
    let pipeline = "Pipeline(name: \"p\", passes: [Rewrite(name: \"a\"), Extract(), Plan()])";
    let found = names("p.ron", pipeline);
    assert_eq!(list(&found), ["p"]);
    assert_eq!(list(&found[0]["children"]), ["a", "Extract", "Plan"]);
}

//! Changes of a text.

use crate::client::{Client, position};
use serde_json::json;

#[test]
fn many_changes_in_one_message_are_applied_in_order() {
    let mut client = Client::new("changes", &[]);
    let text = "[Rule(name: \"a\", /* é𝛼 */ from: \"(relu ?x)\", to: \"?x\")]";
    let place = client.open("a.ron", text);
    let at = text.find("relu").unwrap();
    let after = text.replace("relu", "sigmoid");
    let doc = json!({ "uri": client.uri("a.ron"), "version": 2 });
    let first = json!({ "start": position(text, at), "end": position(text, at + 4) });
    let end = position(&after, after.len());
    let changes = json!([
        { "range": first, "text": "sigmoid" },
        { "range": { "start": end, "end": end }, "text": "\r\n// 𝛼\r\n" },
    ]);
    client.tell("textDocument/didChange", json!({ "textDocument": doc, "contentChanges": changes }));
    let hover = |client: &mut Client, position| {
        client
            .ask("textDocument/hover", json!({ "textDocument": place["textDocument"], "position": position }))
    };
    let told = hover(&mut client, position(&after, at + 2));
    assert!(told["contents"]["value"].as_str().unwrap().starts_with("**sigmoid**"), "{told}");
    // Positions beyond a line or the text are its end.
    for beyond in [json!({ "line": 0, "character": 900 }), json!({ "line": 900, "character": 3 })] {
        assert_eq!(hover(&mut client, beyond), json!(null));
    }
}

#[test]
fn files_of_two_folders_with_one_name_are_told_apart() {
    let right = "[Rule(name: \"a\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]";
    let mut client = Client::with_folders("folders", &["one", "two"]);
    client.open("one/rules/mine.ron", right);
    client.open("two/rules/mine.ron", &right.replace("(relu ?x)\")", "(rleu ?x)\")"));
    client.messages("two/rules/mine.ron", |list| list.iter().any(|one| one["severity"] == 1));
    client.messages("one/rules/mine.ron", |list| list.iter().all(|one| one["severity"] != 1));
}

#[test]
fn examples_beside_a_file_outside_of_all_folders_are_read() {
    let rule = "[Rule(name: \"a\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]";
    let examples = "[Examples(rule: \"b\", examples: [Example(fires: \"x: f32[2] = input; return x\")])]";
    let mut client = Client::with_folders("outside", &["inside"]);
    for (name, text) in [("rules/mine.ron", rule), ("rules/examples/mine.ron", examples)] {
        std::fs::create_dir_all(client.path(name).parent().unwrap()).unwrap();
        std::fs::write(client.path(name), text).unwrap();
    }
    client.open("rules/examples/mine.ron", examples);
    let list = client.messages("rules/examples/mine.ron", |list| !list.is_empty());
    assert!(list[0]["message"].as_str().unwrap().contains("`b`"), "{list:#?}");
}

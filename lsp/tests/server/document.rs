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

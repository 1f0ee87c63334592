//! Texts that are being written: at every place, cut off at every place, and with the rest behind it.

use crate::client::{Client, labels, position};
use serde_json::json;

const RULE: &str = "[
    // Law: é.
    Rule(
        name: \"pack-$l\",
        for_each: [{\"l\": \"nChw16c\"}, {\"l\": \"nChw8c\"}],
        from: \"(conv ?x ?w ?b? ?e.. {groups: ?g, post: <relu, clip(0.0, 6.0)>, *a})\",
        to: r#\"(unpack (each ?e ?i (pack ?i {layout: $l})) {to: \"x\", *a})\"#,
        let: {\"k\": \"add(dim(?x, 0), 1)\"},
        when: [\"equal(?k, max-of(1, 2))\", \"is-f32(?x)\"],
    ), /* the end */
]
";

/// Asks everything at a place.
fn ask_all(client: &mut Client, name: &str, position: &serde_json::Value) {
    let place = json!({ "textDocument": { "uri": client.uri(name) }, "position": position });
    for method in ["completion", "hover", "definition", "references", "documentHighlight"] {
        let mut ask = place.clone();
        // Of references; completion has a field of this name as well, which says what asked for it.
        ask["context"] = json!({ "includeDeclaration": true, "triggerKind": 1 });
        client.ask(&format!("textDocument/{method}"), ask);
    }
    let mut rename = place.clone();
    rename["newName"] = json!("other");
    // Most places cannot be renamed, which the answer says.
    let _ = client.try_ask("textDocument/rename", rename);
    client.ask("textDocument/documentSymbol", place);
}

#[test]
fn every_beginning_and_every_end_of_a_text_is_answered() {
    let mut client = Client::new("beginnings", &[]);
    client.open("rules/mine.ron", "");
    let places: Vec<usize> = (0..=RULE.len()).filter(|at| RULE.is_char_boundary(*at)).collect();
    for at in places {
        client.change("rules/mine.ron", None, &RULE[..at]);
        ask_all(&mut client, "rules/mine.ron", &position(RULE, at));
        // With one letter less.
        let next = RULE[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        client.change("rules/mine.ron", None, &format!("{}{}", &RULE[..at], &RULE[next..]));
        ask_all(&mut client, "rules/mine.ron", &position(RULE, at));
        client.change("rules/mine.ron", None, &RULE[at..]);
        ask_all(&mut client, "rules/mine.ron", &json!({ "line": 0, "character": 0 }));
    }
    client.end().unwrap();
}

#[test]
fn beginnings_of_a_text_are_checked() {
    let mut client = Client::new("checked", &[]);
    client.open("rules/mine.ron", "[");
    // The server checks a text when it hears nothing for a while, so only some beginnings are awaited.
    for at in (0..RULE.len()).step_by(61).filter(|at| RULE.is_char_boundary(*at)) {
        client.change("rules/mine.ron", None, &RULE[..at]);
        client.messages("rules/mine.ron", |list| !list.is_empty());
    }
    client.end().unwrap();
}

#[test]
fn a_quote_that_is_not_closed_does_not_hide_what_follows() {
    let mut client = Client::new("quote", &[]);
    let text = "[
    Rule(
        name: \"a\",
        from: \"(add ?first (re‸
        to: \"(relu ?first)\",
    ),
    Rule(name: \"b\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\"),
]
";
    let at = client.open("rules/mine.ron", text);
    let items = client.ask("textDocument/completion", at.clone());
    assert!(labels(items.as_array().unwrap()).contains(&"relu"));
    let found = client.ask("textDocument/documentSymbol", json!({ "textDocument": at["textDocument"] }));
    let names: Vec<&str> =
        found.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    let text = text.replace("(re‸", "?‸");
    let items = client.completions("rules/mine.ron", &text);
    assert_eq!(labels(&items), ["?first"]);
}

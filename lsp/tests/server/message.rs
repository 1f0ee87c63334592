//! The messages about a file while it is written.

use crate::client::{Client, position};
use serde_json::json;

const RULE: &str = "[
    // A comment with é and 𝛼, whose units of UTF-16 are not its bytes.
    Rule(
        name: \"double\",
        from: \"(add ?x ?x)\",
        to: \"(mul ?x 2.0)\",
        when: [\"is-f32(?x)\"],
    ),
]
";

#[test]
fn a_mistake_is_told_where_it_is_and_forgotten_when_it_is_mended() {
    let mut client = Client::new("mistake", &[]);
    let wrong = RULE.replace("(mul ?x 2.0)", "(mull ?x 2.0)");
    client.open("my-rules/mine.ron", &wrong);
    let list = client.messages("my-rules/mine.ron", |list| !list.is_empty());
    assert_eq!(list.len(), 1, "{list:#?}");
    assert_eq!(list[0]["message"], "op `mull` is not known\nhelp: did you mean `mul`?\nin rule `double`");
    assert_eq!((&list[0]["severity"], &list[0]["source"]), (&json!(1), &json!("ovolo")));
    let at = wrong.find("mull").unwrap();
    assert_eq!(list[0]["range"], json!({ "start": position(&wrong, at), "end": position(&wrong, at + 4) }));
    // The last letter is taken away.
    let range = json!({ "start": position(&wrong, at + 3), "end": position(&wrong, at + 4) });
    client.change("my-rules/mine.ron", Some(range), "");
    client.messages("my-rules/mine.ron", <[_]>::is_empty);
    client.end().unwrap();
}

#[test]
fn places_are_counted_in_utf_16_and_in_bytes_if_the_client_offers_them() {
    let text = "[Rule(name: \"a\", /* 𝛼é */ from: \"(mull ?x)\", to: \"?x\")]";
    let at = text.find("mull").unwrap();
    let mut client = Client::new("utf-16", &[]);
    client.open("a.ron", text);
    let list = client.messages("a.ron", |list| !list.is_empty());
    // `𝛼` is two units or four bytes, `é` one unit or two bytes.
    assert_eq!(list[0]["range"]["start"]["character"], at - 3);
    let capabilities = json!({ "general": { "positionEncodings": ["utf-16", "utf-8"] } });
    let mut client = Client::with_capabilities("utf-8", &[], capabilities);
    client.open("a.ron", text);
    let list = client.messages("a.ron", |list| !list.is_empty());
    assert_eq!(list[0]["range"]["start"]["character"], at);
}

#[test]
fn findings_of_the_check_come_beside_mistakes() {
    let mut client = Client::new("finding", &[]);
    let unused =
        RULE.replace("(add ?x ?x)", "(concat ?x ?x {axis: ?n})").replace("(mul ?x 2.0)", "(mul ?x ?x)");
    client.open("my-rules/mine.ron", &unused);
    let list = client.messages("my-rules/mine.ron", |list| list.len() > 2);
    let told: Vec<(&str, u64)> =
        list.iter().map(|one| (one["code"].as_str().unwrap(), one["severity"].as_u64().unwrap())).collect();
    assert!(told.contains(&("mistyped", 1)), "{list:#?}");
    assert!(told.contains(&("unused", 2)), "{list:#?}");
    assert!(told.contains(&("no-pipeline", 2)), "{list:#?}");
}

#[test]
fn a_pipeline_of_the_folder_uses_its_rules() {
    let pipeline = r#"Pipeline(
        name: "mine",
        passes: [Rewrite(name: "all", rules: ["mine"]), Extract(), Plan()],
        backends: ["native"],
    )"#;
    let mut client = Client::new("used", &[("mine-pipeline.ron", pipeline)]);
    client.open("my-rules/mine.ron", RULE);
    // Once for the mistakes, once for the findings: there are neither.
    client.messages("my-rules/mine.ron", <[_]>::is_empty);
    client.messages("my-rules/mine.ron", <[_]>::is_empty);
}

#[test]
fn the_text_in_the_editor_counts_more_than_the_file() {
    let files = [("rules/mine.ron", RULE), ("p.ron", "Pipeline()")];
    let mut client = Client::new("editor", &files);
    let pipeline = r#"Pipeline(
        name: "mine",
        passes: [Rewrite(name: "all", rules: ["twice"]), Extract(), Plan()],
        backends: ["native"],
    )"#;
    client.open("p.ron", pipeline);
    let list = client.messages("p.ron", |list| !list.is_empty());
    assert!(list[0]["message"].as_str().unwrap().starts_with("no rule"), "{list:#?}");
    client.open("rules/mine.ron", &RULE.replace("\"double\"", "\"twice\""));
    client.messages("p.ron", <[_]>::is_empty);
    // The file on the disk has the old name still.
    let file = json!({ "uri": client.uri("rules/mine.ron") });
    client.tell("textDocument/didClose", json!({ "textDocument": file }));
    client.messages("p.ron", |list| !list.is_empty());
}

#[test]
fn examples_are_checked_with_the_rules_beside_them() {
    let mut client = Client::new("beside", &[("rules/mine.ron", RULE)]);
    let examples = r#"[Examples(rule: "dubble", examples: [Example(fires: "x: f32[2] = input; y = add(x, x); return y")])]"#;
    client.open("rules/examples/mine.ron", examples);
    let list = client.messages("rules/examples/mine.ron", |list| !list.is_empty());
    assert!(list[0]["message"].as_str().unwrap().contains("dubble"), "{list:#?}");
    client.change("rules/examples/mine.ron", None, &examples.replace("dubble", "double"));
    client.messages("rules/examples/mine.ron", <[_]>::is_empty);
}

#[test]
fn a_file_that_changes_on_the_disk_is_read_again() {
    let mut client = Client::new("watched", &[("rules/mine.ron", RULE)]);
    client.open("rules/other.ron", RULE);
    let list = client.messages("rules/other.ron", |list| !list.is_empty());
    assert!(list[0]["message"].as_str().unwrap().starts_with("two rules are called `double`"), "{list:#?}");
    assert!(list[0]["relatedInformation"][0]["location"]["uri"].as_str().unwrap().ends_with("mine.ron"));
    std::fs::remove_file(client.path("rules/mine.ron")).unwrap();
    let changes = json!({ "changes": [{ "uri": client.uri("rules/mine.ron"), "type": 3 }] });
    client.tell("workspace/didChangeWatchedFiles", changes);
    client.messages("rules/other.ron", |list| !list.iter().any(|one| one["severity"] == 1));
}

#[test]
fn price_lists_functions_and_other_files_have_messages_too() {
    let mut client = Client::new("others", &[]);
    client.open(
        "costs/mine.ron",
        "Prices(ops: \"native.*\", define: {\"share\": [Case(value: \"nonesuch\")]})",
    );
    client.messages("costs/mine.ron", |list| list.iter().any(|one| one["severity"] == 1));
    client.open("ops/mine.ron", "[Function(name: \"f\", doc: \"g\", formula: \"x +\")]");
    client.messages("ops/mine.ron", |list| list.iter().any(|one| one["severity"] == 1));
    client.open("other.ron", "Settings(a: [1, 2)");
    client.messages("other.ron", |list| list.iter().any(|one| one["severity"] == 1));
}

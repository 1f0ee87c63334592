//! Renaming.

use crate::client::{Client, edited};
use serde_json::{Value as Json, json};

const RULES: &str = "[
    Rule(
        name: \"mine-$op\",
        for_each: {\"op\": [\"sin\", \"cos\"], \"f\": [\"$op\"]},
        from: \"($op (concat ?x ?xs.. {axis: ?n, *a}))\",
        to: \"(concat ($f ?x) (each ?xs ?i ($f ?i)) {axis: ?n, *a})\",
        let: {\"k\": \"add(?n, 1)\"},
        when: [\"is-f32(?x)\", \"less(?k, 4)\"],
    ),
    Rule(name: \"other\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\"),
]
";
const EXAMPLES: &str = "[
    Examples(rule: \"mine-$op\", examples: [Example(for: {\"op\": \"sin\"}, refuses: \"y = $op(x)\", because: \"is-f32(?x)\")]),
    Examples(rule: \"other\", examples: [Example(refuses: \"y = relu(x)\", because: \"is-f32(?x)\")]),
]
";
const PIPELINE: &str = "Pipeline(name: \"p\", passes: [Rewrite(name: \"a\", rules: [\"other\", \"mine\"])])";

fn client(name: &str) -> Client {
    Client::new(
        name,
        &[("rules/mine.ron", RULES), ("rules/examples/mine.ron", EXAMPLES), ("p.ron", PIPELINE)],
    )
}

/// Renames what is at the first place of a text, and returns the texts of the files afterwards.
fn renamed(client: &mut Client, at: &str, new: &str) -> Result<[String; 3], String> {
    let mut place =
        client.open("rules/mine.ron", &RULES.replacen(at, &format!("{}‸{}", &at[..1], &at[1..]), 1));
    place["newName"] = json!(new);
    let changes = client.try_ask("textDocument/rename", place)?["changes"].clone();
    let files = [("rules/mine.ron", RULES), ("rules/examples/mine.ron", EXAMPLES), ("p.ron", PIPELINE)];
    Ok(files.map(|(name, text)| {
        let none = Vec::new();
        let edits: &Vec<Json> = changes[client.uri(name)].as_array().unwrap_or(&none);
        edited(text, edits)
    }))
}

#[test]
fn a_variable_is_renamed_in_its_rule_and_in_the_reasons_of_its_examples() {
    let mut client = client("variable");
    let first = RULES.find("Rule(name").unwrap();
    let [rules, examples, pipeline] = renamed(&mut client, "?x ", "?row").unwrap();
    let wanted =
        format!("{}{}", RULES[..first].replace("?x ", "?row ").replace("?x)", "?row)"), &RULES[first..]);
    assert_eq!(rules, wanted);
    assert_eq!(examples, EXAMPLES.replacen("?x", "?row", 1));
    assert_eq!(pipeline, PIPELINE);
    // A computed attribute is named without its sign where it is made.
    let [rules, ..] = renamed(&mut client, "?k, 4", "next").unwrap();
    assert_eq!(rules, RULES.replace("\"k\"", "\"next\"").replace("?k", "?next"));
    let [rules, ..] = renamed(&mut client, "*a", "rest").unwrap();
    assert_eq!(rules, RULES.replace("*a", "*rest"));
}

#[test]
fn of_two_rules_with_one_name_only_the_own_one_is_renamed() {
    let text = "[Rule(name: \"a\", from: \"(relu ?x)\", to: \"?‸x\"), Rule(name: \"a\", from: \"(abs ?x)\", to: \"?x\")]";
    for text in [text.to_owned(), text.replace("name: \"a\", ", "")] {
        let mut client = Client::new("two", &[]);
        let mut place = client.open("rules/mine.ron", &text);
        place["newName"] = json!("y");
        let changes = client.ask("textDocument/rename", place)["changes"].clone();
        let edits = changes[client.uri("rules/mine.ron")].as_array().unwrap().clone();
        let text = text.replace('‸', "");
        assert_eq!(edited(&text, &edits), text.replacen("?x", "?y", 2));
    }
}

#[test]
fn a_key_is_renamed_in_rows_texts_and_examples() {
    let mut client = client("key");
    let [rules, examples, _] = renamed(&mut client, "op\": [", "function").unwrap();
    assert_eq!(rules, RULES.replace("$op", "$function").replace("\"op\"", "\"function\""));
    assert_eq!(examples, EXAMPLES.replace("$op", "$function").replace("\"op\"", "\"function\""));
}

#[test]
fn a_rule_is_renamed_in_examples_and_pipelines() {
    let mut client = client("rule");
    let [rules, examples, pipeline] = renamed(&mut client, "other\"", "relu-once").unwrap();
    let wanted = [RULES, EXAMPLES, PIPELINE].map(|text| text.replace("\"other\"", "\"relu-once\""));
    assert_eq!([rules, examples, pipeline], wanted);
}

#[test]
fn names_that_are_taken_or_no_names_are_refused() {
    let mut client = client("refused");
    let mut refused = |at: &str, new: &str| renamed(&mut client, at, new).unwrap_err();
    assert_eq!(refused("?x ", "n"), "there is a `n` already");
    assert_eq!(refused("?x ", "a b"), "`a b` is no name: write letters, digits, `-` and `_`");
    assert_eq!(refused("?x ", ""), "`` is no name: write letters, digits, `-` and `_`");
    assert_eq!(refused("other\"", "mine-$op"), "`mine-$op` is no name: it needs the same `$` keys as before");
    assert_eq!(refused("mine-$op", "mine"), "`mine` is no name: it needs the same `$` keys as before");
    assert_eq!(refused("concat", "join"), "only variables, keys of rows and rules can be renamed here");
}

#[test]
fn what_is_renamed_is_shown_first() {
    let mut client = client("prepare");
    let place = client.open("rules/mine.ron", &RULES.replacen("?n,", "?‸n,", 1));
    let found = client.ask("textDocument/prepareRename", place);
    assert_eq!(found["placeholder"], "n");
}

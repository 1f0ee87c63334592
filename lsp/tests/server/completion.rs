//! Completion.

use crate::client::{Client, edited, labels};

/// Returns a rule with these fields.
fn rule(fields: &str) -> String {
    format!("[\n    Rule(\n        name: \"mine\",\n        {fields}\n    ),\n]\n")
}

/// Asserts what a completion has and has not.
fn assert_has(client: &mut Client, text: &str, has: &[&str], lacks: &[&str]) {
    let items = client.completions("rules/mine.ron", text);
    let labels = labels(&items);
    for name in has {
        assert!(labels.contains(name), "`{name}` is absent at the cursor of {text}: {labels:?}");
    }
    for name in lacks {
        assert!(!labels.contains(name), "`{name}` is there at the cursor of {text}");
    }
}

#[test]
fn ops_guards_and_functions_of_the_registry_complete() {
    let mut client = Client::new("ops", &[]);
    let c = &mut client;
    assert_has(c, &rule("from: \"(‸"), &["conv", "cube", "native.conv-direct"], &["is-f32", "each"]);
    assert_has(c, &rule("from: \"(add (cu‸ ?x) ?y)\","), &["cube"], &[]);
    assert_has(c, &rule("to: \"(concat (‸"), &["conv", "each"], &[]);
    assert_has(c, &rule("when: [\"‸\"],"), &["is-f32", "is-lucky", "not"], &["dim", "conv"]);
    assert_has(c, &rule("when: [\"not(‸)\"],"), &["is-f32"], &["dim"]);
    assert_has(c, &rule("when: [\"equal(‸\"],"), &["dim", "rank-of"], &["is-f32"]);
    assert_has(c, &rule("let: {\"k\": \"‸\"},"), &["dim"], &["is-f32"]);
}

#[test]
fn attributes_of_the_op_complete_except_those_that_are_written() {
    let mut client = Client::new("attributes", &[]);
    let c = &mut client;
    let own = ["strides", "pads", "groups", "post"];
    assert_has(c, &rule("from: \"(conv ?x ?w ?b {‸})\","), &own, &["axis"]);
    assert_has(c, &rule("from: \"(conv ?x ?w ?b {groups: 2, ‸\","), &["pads"], &["groups"]);
    assert_has(c, &rule("from: \"(concat (conv ?x ?w ?b) {ax‸\","), &["axis"], &["groups"]);
    assert_has(c, &rule("from: \"(conv ?x ?w ?b {post: <‸\","), &["relu", "cube"], &["conv"]);
    assert_has(c, &rule("from: \"(cast ?x {to: ‸})\","), &["f32", "bf16"], &[]);
}

#[test]
fn variables_of_the_rule_complete_with_their_signs() {
    let mut client = Client::new("variables", &[]);
    let text =
        "from: \"(conv ?image ?weights {groups: ?n, *more})\", for_each: {\"l\": [\"nChw16c\"]}, to: \"";
    let c = &mut client;
    assert_has(c, &rule(&format!("{text}(relu ?‸")), &["?image", "?weights", "?n"], &["*more"]);
    assert_has(c, &rule(&format!("{text}(relu ‸")), &["?image"], &[]);
    assert_has(c, &rule(&format!("{text}(conv ?image {{*‸")), &["*more"], &["?image"]);
    assert_has(c, &rule(&format!("{text}(pack ?image {{layout: $‸")), &["$l"], &["?image"]);
    let other = "[Rule(name: \"a\", from: \"(relu ?other)\", to: \"?other\"),\nRule(name: \"b\", from: \"(relu ?x)\", to: \"?‸\")]";
    assert_has(c, other, &["?x"], &["?other"]);
}

#[test]
fn an_accepted_completion_replaces_what_was_written() {
    let mut client = Client::new("accepted", &[]);
    let written = rule("from: \"(add (cu‸ ?é) ?y)\",");
    let items = client.completions("rules/mine.ron", &written);
    let cube = items.iter().find(|item| item["label"] == "cube").unwrap();
    assert_eq!(cube["detail"], "x to the power 3");
    let text = edited(&written.replace('‸', ""), std::slice::from_ref(&cube["textEdit"]));
    assert_eq!(text, written.replace("cu‸", "cube"));
}

#[test]
fn fields_and_structs_complete_outside_of_texts() {
    let mut client = Client::new("fields", &[]);
    let c = &mut client;
    assert_has(c, "[\n    ‸\n]\n", &["Rule"], &[]);
    assert_has(c, &rule("from: \"(relu ?x)\",\n        ‸"), &["to", "when", "for_each"], &["from", "name"]);
    assert_has(c, &rule("from: \"(relu ?x)\",\n        wh‸"), &["when"], &[]);
    assert_has(c, "[\n    // A law: ‸\n]\n", &[], &["Rule"]);
    assert_has(c, &rule("from: \"(relu ?x)\", // to: ‸\n"), &[], &["to"]);
    assert_has(c, &rule("name: \"a // b\", ‸\n"), &["to"], &[]);
}

#[test]
fn a_new_file_may_become_any() {
    let mut client = Client::new("new", &[]);
    assert_eq!(labels(&client.completions("my-files/new.ron", "‸")), ["Pipeline"]);
    assert_eq!(
        labels(&client.completions("my-files/new.ron", "// A comment.\n[\n    R‸")),
        ["Rule", "Examples"]
    );
}

#[test]
fn pipelines_complete_passes_their_settings_and_what_they_name() {
    let rules = "[Rule(name: \"double\", from: \"(add ?x ?x)\", to: \"(mul ?x 2.0)\")]";
    let mut client = Client::new("pipelines", &[("rules/mine.ron", rules)]);
    let mut at = |text: &str| {
        let items = client.completions("passes/p.ron", text);
        labels(&items).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(at("‸"), ["Pipeline"]);
    assert_eq!(at("Pipeline(name: \"p\", ‸"), ["passes", "backends", "precision", "assume", "unroll"]);
    assert_eq!(at("Pipeline(passes: [‸"), ["Rewrite", "Extract", "Plan", "Resident"]);
    let settings = at("Pipeline(passes: [Rewrite(name: \"a\", ‸");
    assert_eq!(settings, ["rules", "rounds", "nodes", "nodes_per_op"]);
    assert_eq!(at("Pipeline(passes: [Extract(‸"), ["extractor", "cost", "memory", "further_forms"]);
    let names = at("Pipeline(passes: [Rewrite(rules: [\"‸\"])])");
    assert!(["fuse", "mine", "double", "fuse-silu"].iter().all(|name| names.iter().any(|one| one == name)));
    assert_eq!(at("Pipeline(backends: [\"‸\"])"), ["native"]);
    assert!(at("Pipeline(passes: [Extract(cost: \"‸\")])").contains(&"roofline".to_owned()));
    assert!(at("Pipeline(passes: [Plan(planner: \"‸\")])").contains(&"exact".to_owned()));
    assert!(at("Pipeline(precision: \"‸\")").contains(&"tf32".to_owned()));
}

#[test]
fn examples_complete_rules_ops_and_reasons() {
    let rules = "[Rule(name: \"double\", from: \"(add ?x ?x)\", to: \"(mul ?x 2.0)\")]";
    let mut client = Client::new("examples", &[("rules/mine.ron", rules)]);
    let mut at = |text: &str| {
        let items = client.completions("rules/examples/mine.ron", text);
        labels(&items).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(at("[Examples(rule: \"‸\")]"), ["double"]);
    assert!(at("[Examples(examples: [Example(fires: \"y = ‸").contains(&"cube".to_owned()));
    let attributes = at("[Examples(examples: [Example(fires: \"y = concat(x, x) {‸");
    assert!(attributes.contains(&"axis".to_owned()), "{attributes:?}");
    assert!(at("[Examples(examples: [Example(because: \"‸").contains(&"no match".to_owned()));
    assert_eq!(at("[Examples(examples: [Example(‸"), ["fires", "after", "refuses", "because", "for"]);
}

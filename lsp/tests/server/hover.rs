//! Hover.

use crate::client::Client;

/// Returns what is told at the cursor of a text.
fn told(client: &mut Client, name: &str, text: &str) -> String {
    let at = client.open(name, text);
    let hover = client.ask("textDocument/hover", at);
    hover["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_reference_is_told_of_ops_attributes_guards_steps_and_fields() {
    let mut client = Client::new("reference", &[]);
    let mut at = |text: &str| told(&mut client, "rules/mine.ron", &format!("[Rule({text})]"));
    let cube = at("from: \"(cu‸be ?x)\"");
    assert_eq!(cube, "**cube** — x to the power 3\n\nOperands: 1");
    assert!(at("from: \"(concat ?x {a‸xis: 1})\"").starts_with("`axis`: Int"));
    assert!(at("when: [\"is-lu‸cky(?x)\"]").contains("the number is 7\n\nguard"));
    assert!(at("when: [\"equal(di‸m(?x, 1), 3)\"]").contains("computed attribute: integer"));
    assert!(at("from: \"(conv ?x ?w ?b {post: <cu‸be>})\"").contains("a step of a chain: x to the power 3"));
    assert!(at("fr‸om: \"(relu ?x)\"").contains("left side"));
    assert!(at("from: \"(nonesu‸ch ?x)\"").is_empty());
    assert!(at("to: \"(ea‸ch ?xs ?x (relu ?x))\"").contains("each value of a rest"));
}

#[test]
fn variables_and_keys_are_told_by_what_binds_them() {
    let mut client = Client::new("bound", &[]);
    let mut at = |text: &str| told(&mut client, "rules/mine.ron", &format!("[Rule({text})]"));
    let from = "from: \"(concat ?a ?xs.. ?o? ?c:0..6 {axis: ?n, *r})\", let: {\"k\": \"add(?n, 1)\"}";
    assert_eq!(at(&format!("{from}, to: \"?a‸\"")), "**?a** — an operand");
    assert!(at(&format!("{from}, to: \"?xs‸\"")).contains("any number of operands"));
    assert!(at(&format!("{from}, to: \"?o‸\"")).contains("may be absent"));
    assert!(at(&format!("{from}, to: \"?c‸\"")).contains("a constant of one element"));
    assert_eq!(at(&format!("{from}, to: \"?n‸\"")), "**?n** — the attribute `axis` of `concat`");
    assert!(at(&format!("{from}, to: \"?k‸\"")).contains("`let` computes"));
    assert!(at(&format!("{from}, to: \"(relu ?a {{*r‸}})\"")).contains("the attributes that the left side"));
    let key = at("name: \"a-$o‸p\", for_each: {\"op\": [\"sin\", \"cos\"], \"l\": [\"x\"]}");
    assert_eq!(key, "**$op** — `sin`, `cos`");
}

#[test]
fn pipelines_are_told_of_passes_rules_and_backends() {
    let rules = "[\n    // Twice is a product.\n    Rule(name: \"double\", from: \"(add ?x ?x)\", to: \"(mul ?x 2.0)\"),\n]\n";
    let mut client = Client::new("told", &[("rules/mine.ron", rules)]);
    let mut at = |text: &str| told(&mut client, "passes/p.ron", &format!("Pipeline({text})"));
    assert!(at("passes: [Rewr‸ite(name: \"a\")]").contains("`nodes_per_op`"));
    let double = at("passes: [Rewrite(rules: [\"dou‸ble\"])]");
    assert!(double.contains("Twice is a product."), "{double}");
    assert!(double.contains("from (add ?x ?x)\nto   (mul ?x 2.0)"), "{double}");
    assert!(at("passes: [Rewrite(rules: [\"fu‸se\"])]").contains("rules of rules/fuse.ron"));
    assert!(at("backends: [\"nat‸ive\"]").contains("available here"));
}

//! Tests the exchange of e-graphs with other extractors. A checker that shares no code with the extractors
//! prices their choices.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../../tests/framework/extract/synthetic.rs"]
mod synthetic;

use crate::common;

use crate::common::{folder, ovolo};
use ovolo::extract::{self, Label, Named, Problem};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Prices a choice from the file alone. Classes are computed in rounds, each from earlier ones, so a class on
/// a cycle is never computed.
fn price(egraph: &Value, choices: &Value) -> Result<f64, String> {
    let nodes = egraph["nodes"].as_object().unwrap();
    let class = |node: &Value| nodes[node.as_str().unwrap()]["eclass"].as_str().unwrap();
    let mut wanted: BTreeSet<&str> =
        egraph["root_eclasses"].as_array().unwrap().iter().map(|root| root.as_str().unwrap()).collect();
    let mut reads: BTreeMap<&str, (f64, Vec<&str>)> = BTreeMap::new();
    while let Some(next) = wanted.iter().find(|class| !reads.contains_key(*class)).copied() {
        let id = choices[next].as_str().ok_or(format!("nothing is chosen for {next}"))?;
        let node = nodes.get(id).ok_or(format!("{id} is no node"))?;
        if node["eclass"] != next {
            return Err(format!("{id} is not of {next}"));
        }
        let cost = node.get("cost").map_or(Some(1.0), Value::as_f64).ok_or(format!("{id} cannot be run"))?;
        let children: Vec<&str> =
            node.get("children").and_then(Value::as_array).into_iter().flatten().map(class).collect();
        wanted.extend(&children);
        reads.insert(next, (cost, children));
    }
    let mut computed: BTreeSet<&str> = BTreeSet::new();
    loop {
        let ready: Vec<&str> = reads
            .iter()
            .filter(|(class, (_, children))| {
                !computed.contains(**class) && children.iter().all(|child| computed.contains(child))
            })
            .map(|(class, _)| *class)
            .collect();
        if ready.is_empty() {
            break;
        }
        computed.extend(ready);
    }
    if computed.len() < reads.len() {
        return Err("a class depends on itself".to_owned());
    }
    Ok(reads.values().map(|(cost, _)| cost).sum())
}

fn sound(egraph: &Value, said: &Value, what: &str) {
    let cost = price(egraph, &said["choices"]).unwrap_or_else(|error| panic!("{what}: {error}"));
    let claimed = said["cost"].as_f64().unwrap();
    assert!(
        (cost - claimed).abs() <= 1e-9 * cost.max(1e-9),
        "{what}: reports cost {claimed}, but costs {cost}"
    );
    assert!(said["bound"].as_f64().unwrap() <= cost * (1.0 + 1e-9), "{what}: {said}");
    assert!(said["seconds"].as_f64().is_some(), "{what}: {said}");
}

/// Returns a problem in the form of the file.
fn named(problem: Problem) -> Named {
    let label = |class: usize, node: usize| Label { id: format!("n{class}_{node}"), op: "f".to_owned() };
    Named {
        classes: (0..problem.classes.len()).map(|class| format!("c{class}")).collect(),
        types: vec![None; problem.classes.len()],
        nodes: problem
            .classes
            .iter()
            .enumerate()
            .map(|(class, nodes)| (0..nodes.nodes.len()).map(|node| label(class, node)).collect())
            .collect(),
        problem,
    }
}

pub fn choices_of_every_extractor_are_priced_again() {
    let at = folder("exchange");
    let problems = [
        ("tangle", synthetic::tangle(7)),
        ("residual", synthetic::residual(3, 2, 3)),
        ("wired", synthetic::wired(4, 6)),
    ];
    for (name, problem) in problems {
        let file = format!("{name}.json");
        std::fs::write(at.join(&file), named(problem).to_json()).unwrap();
        let egraph: Value = serde_json::from_slice(&std::fs::read(at.join(&file)).unwrap()).unwrap();
        for extractor in extract::extractors()
            .iter()
            .map(|(_, kind)| (kind.plain)())
            .filter(|one| name == "tangle" || one.name() != "naive")
        {
            let output = ovolo(&at, &["extract", &file, "--extractor", extractor.name(), "--json"]);
            let said = json(&output);
            sound(&egraph, &said, &format!("{} on {name}", extractor.name()));
            checked_by_python(&at, &file, &output);
        }
    }
}

/// Checks that the checker in Python agrees.
fn checked_by_python(at: &Path, file: &str, output: &Output) {
    std::fs::write(at.join("chosen.json"), &output.stdout).unwrap();
    let script = common::root().join("examples/extraction/check.py");
    let checked =
        Command::new("python3").arg(script).args([file, "chosen.json"]).current_dir(at).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// A choice without a bound is checked nevertheless.
pub fn a_choice_without_a_bound_is_checked() {
    let at = folder("exchange-unbound");
    std::fs::write(
        at.join("egraph.json"),
        r#"{"nodes": {"a": {"op": "f", "eclass": "0"}}, "root_eclasses": ["0"]}"#,
    )
    .unwrap();
    let script = common::root().join("examples/extraction/check.py");
    for (chosen, whether) in [
        (r#"{"cost": 1.0, "bound": null, "choices": {"0": "a"}}"#, Some("no bound: sound")),
        (r#"{"cost": null, "bound": null, "choices": {"0": "a"}}"#, None),
    ] {
        std::fs::write(at.join("chosen.json"), chosen).unwrap();
        let check = Command::new("python3")
            .arg(&script)
            .args(["egraph.json", "chosen.json"])
            .current_dir(&at)
            .output();
        let output = check.unwrap();
        let said =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
        assert_eq!(output.status.success(), whether.is_some(), "{said}");
        assert!(said.contains(whether.unwrap_or("reports no cost")) && !said.contains("Traceback"), "{said}");
    }
}

pub fn a_wrong_choice_is_found_by_the_checker() {
    let at = folder("exchange-wrong");
    let file = r#"{"nodes": {"a": {"op": "f", "children": ["b"], "eclass": "0", "cost": 1},
        "b": {"op": "g", "children": ["a"], "eclass": "1", "cost": 1}, "c": {"op": "x", "eclass": "1", "cost": 5}},
        "root_eclasses": ["0"]}"#;
    std::fs::write(at.join("egraph.json"), file).unwrap();
    let egraph: Value = serde_json::from_str(file).unwrap();
    let said = json(&ovolo(&at, &["extract", "egraph.json", "--json"]));
    assert_eq!(said["choices"], serde_json::json!({"0": "a", "1": "c"}));
    sound(&egraph, &said, "two classes");
    for (wrong, why) in [
        (serde_json::json!({"0": "a", "1": "b"}), "depends on itself"),
        (serde_json::json!({"0": "a"}), "nothing is chosen"),
        (serde_json::json!({"0": "c"}), "not of 0"),
    ] {
        assert!(price(&egraph, &wrong).unwrap_err().contains(why));
    }
}

pub fn a_model_s_egraph_is_extracted_as_when_it_is_compiled() {
    let at = folder("exchange-model");
    let model = common::root().join("examples/digits/digits.onnx");
    let model = model.to_str().unwrap();
    let settings = [model, "--dim", "N=1", "--cost", "flops", "--threads", "1"];
    let dump = ovolo(&at, &[&["dump"], &settings[..], &["--egraph", "digits.json"]].concat());
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let egraph: Value = serde_json::from_slice(&std::fs::read(at.join("digits.json")).unwrap()).unwrap();
    let said = json(&ovolo(&at, &["extract", "digits.json", "--json"]));
    sound(&egraph, &said, "digits");
    let compiled = json(&ovolo(&at, &[&["compile"], &settings[..], &["--json"]].concat()));
    let passes = compiled["passes"].as_array().unwrap();
    let cost = passes.iter().find(|pass| pass["pass"] == "extract").unwrap()["cost"].as_f64().unwrap();
    assert!((said["cost"].as_f64().unwrap() - cost).abs() <= 1e-9 * cost, "{said} {cost}");
}

pub fn bad_files_are_refused_with_the_place_and_what_to_do() {
    let at = folder("exchange-bad");
    let node = |rest: &str| {
        format!(r#"{{"nodes": {{"a": {{"op": "f", "eclass": "0"{rest}}}}}, "root_eclasses": ["0"]}}"#)
    };
    let files = [
        (String::new(), "egraph.json: EOF while parsing a value at line 1 column 0"),
        ("{\"nodes\": {\n".to_owned(), "at line 2 column 0"),
        ("[1]".to_owned(), "help: the form is that of the crate egraph-serialize"),
        (node(r#", "cost": "x""#), "expected f64 at line 1"),
        (node(r#", "cost": -2"#), "node `a` costs -2: a cost is zero or more"),
        (node(r#", "children": ["b"]"#), "node `a` has the child `b`, which is not a node"),
        (node(r#", "children": ["a"]"#), "no node of the root class `0` can be computed"),
        (node(r#", "cost": null"#), "add a node of finite cost there"),
        (
            r#"{"nodes": {"a": {"op": "f", "eclass": "0", "cost": 1e308, "children": ["b"]},
                "b": {"op": "g", "eclass": "1", "cost": 1e308}}, "root_eclasses": ["0"]}"#
                .to_owned(),
            "the costs are too large to be added: at the class `1`",
        ),
    ];
    for (text, why) in files {
        std::fs::write(at.join("egraph.json"), &text).unwrap();
        let output = ovolo(&at, &["extract", "egraph.json"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        assert!(said.starts_with("error: egraph.json: ") && said.contains(why), "{text}: {said}");
    }
    let output = ovolo(&at, &["extract", "egraph.json", "--extractor", "best"]);
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("there is no extractor `best`: there are exact, ")
    );
}

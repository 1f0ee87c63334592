//! Tests `check` from outside: what it lists of a model, and what it refuses.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo, root};
use crate::proto::{BOOL, FLOAT, named, node, of_domain, value};
use ovolo::onnx::proto::{AttributeProto, AttributeType, GraphProto, ModelProto, NodeProto, OperatorSetId};
use prost::Message;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn folder(name: &str) -> PathBuf {
    common::folder(&format!("check/{name}"))
}

fn branch(attribute: &str, nodes: Vec<NodeProto>, output: &str) -> AttributeProto {
    let graph =
        GraphProto { node: nodes, output: vec![value(output, FLOAT, &["n", "4"])], ..GraphProto::default() };
    AttributeProto {
        name: attribute.to_owned(),
        g: Some(Box::new(graph)),
        r#type: AttributeType::Graph as i32,
        ..AttributeProto::default()
    }
}

/// A model with an operator that ovolo does not know, another one inside a branch, and a node that is refused for its
/// attribute.
fn model() -> Vec<u8> {
    let mut choice = named("choice", node("If", &["flag"], &["chosen"]));
    choice.attribute = vec![
        branch(
            "then_branch",
            vec![of_domain("com.example", named("inner", node("Inner", &["x"], &["t"])))],
            "t",
        ),
        branch("else_branch", vec![named("kept", node("Relu", &["x"], &["e"]))], "e"),
    ];
    let mut odd = named("odd", node("Softmax", &["x"], &["o"]));
    odd.attribute.push(AttributeProto {
        name: "temperature".to_owned(),
        i: 2,
        r#type: AttributeType::Int as i32,
        ..AttributeProto::default()
    });
    let graph = GraphProto {
        node: vec![of_domain("com.example", named("first", node("Mystery", &["x"], &["m"]))), choice, odd],
        input: vec![value("x", FLOAT, &["n", "4"]), value("flag", BOOL, &[])],
        output: vec![
            value("m", FLOAT, &["n", "4"]),
            value("chosen", FLOAT, &["n", "4"]),
            value("o", FLOAT, &["n", "4"]),
        ],
        ..GraphProto::default()
    };
    let opset = |domain: &str, version| OperatorSetId { domain: domain.to_owned(), version };
    ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 17), opset("com.example", 1)],
        graph: Some(graph),
        ..ModelProto::default()
    }
    .encode_to_vec()
}

fn check(at: &Path, arguments: &[&str]) -> Output {
    let all: Vec<&str> = ["check"].iter().chain(arguments).copied().collect();
    ovolo(at, &all)
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_model_that_runs_is_complete_and_its_dimensions_are_listed() {
    let at = folder("complete");
    let digits = root().join("examples/digits/digits.onnx");
    let output = check(&at, &[digits.to_str().unwrap()]);
    let text = said(&output);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "dimensions without a size: `N` (here 1, which --dim or --size changes)",
        "everything is there",
        "Conv",
    ] {
        assert!(text.contains(part), "`{part}` is absent from\n{text}");
    }
    let work = |arguments: &[&str]| -> f64 {
        let all = [&[digits.to_str().unwrap(), "--json"], arguments].concat();
        let json: Value = serde_json::from_str(&said(&check(&at, &all))).unwrap();
        json["flops"].as_f64().unwrap()
    };
    let (one, four) = (work(&[]), work(&["--dim", "N=4"]));
    assert!((four / one - 4.0).abs() < 0.1, "{one} operations for one digit, {four} for four");
    assert_eq!(four, work(&["--size", "4"]));
}

#[test]
fn everything_that_is_absent_is_listed_at_once_also_in_branches() {
    let at = folder("absent");
    std::fs::write(at.join("model.onnx"), model()).unwrap();
    let output = check(&at, &["model.onnx", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_str(&said(&output)).unwrap();
    let absent: Vec<String> =
        json["absent"].as_array().unwrap().iter().map(|one| one["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(json["nodes"], 5);
    for op in ["com.example.Mystery", "com.example.Inner", "Softmax"] {
        assert!(absent.contains(&op.to_owned()), "{op} is absent from {absent:?}");
    }
    assert_eq!(absent.len(), 3, "{json}");
    assert_eq!(json["control"][0]["node"], "node `choice`");
    assert_eq!(json["cuts"].as_array().unwrap().len(), 1, "{json}");
    assert!(json["cuts"][0]["why"].as_str().unwrap().contains("condition"), "{json}");
    let text = said(&check(&at, &["model.onnx"]));
    for part in ["ABSENT", "node `inner`", "`temperature`", "absent: 3 of 5 nodes (60.0 %)", "NOT everything"]
    {
        assert!(text.contains(part), "`{part}` is absent from\n{text}");
    }
}

#[test]
fn a_model_that_cannot_be_surveyed_has_its_error_in_json_too() {
    let at = folder("no-survey");
    std::fs::write(at.join("model.onnx"), b"damaged").unwrap();
    let output = check(&at, &["model.onnx", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_str(&said(&output)).unwrap();
    let error = json["error"].as_str().unwrap();
    assert!(error.starts_with("`model.onnx` is not an ONNX model"), "{json}");
    assert_eq!((&json["model"], &json["complete"]), (&"model.onnx".into(), &false.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains(error));
}

/// Another element type is an error of a run as well, and another shape is not.
#[test]
fn an_output_of_another_type_than_declared_is_reported() {
    let at = folder("declared");
    let with_output = |ty: i32, shape: &[&str]| {
        let graph = GraphProto {
            node: vec![node("Relu", &["x"], &["y"])],
            input: vec![value("x", FLOAT, &["2", "4"])],
            output: vec![value("y", ty, shape)],
            ..GraphProto::default()
        };
        let opset = OperatorSetId { domain: String::new(), version: 17 };
        let model =
            ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() };
        std::fs::write(at.join("model.onnx"), model.encode_to_vec()).unwrap();
        let output = check(&at, &["model.onnx"]);
        (output.status.success(), said(&output))
    };
    let (complete, text) = with_output(FLOAT, &["2", "4"]);
    assert!(complete && !text.contains("note:"), "{text}");
    let (complete, text) = with_output(FLOAT, &["4", "2"]);
    assert!(complete && text.contains("note: output `y` is declared as f32[4,2], but is f32[2,4]"), "{text}");
    let (complete, text) = with_output(BOOL, &["2", "4"]);
    assert!(!complete && text.contains("the model declares it as bool, but computes f32[2,4]"), "{text}");
}

#[test]
fn what_is_no_model_is_refused() {
    let at = folder("refused");
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let output = check(&at, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
    };
    refused(&["none.onnx"], 1, "none.onnx");
    std::fs::write(at.join("text.onnx"), "not a model").unwrap();
    refused(&["text.onnx"], 1, "not an ONNX model");
    std::fs::write(at.join("egraph.json"), r#"{"nodes": {}, "root_eclasses": []}"#).unwrap();
    refused(&["egraph.json"], 1, "it seems to be an e-graph in JSON");
    refused(&["graph.ovolo"], 1, "`check` takes ONNX models");
    std::fs::write(at.join("model.onnx"), model()).unwrap();
    refused(&["model.onnx", "--dim", "batch=3"], 1, "batch=3");
    refused(&["model.onnx", "--size", "0"], 2, "--size");
}

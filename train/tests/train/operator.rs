//! ONNX's operator `Gradient`.

use super::onnx::{FLOAT, model, node, of_domain, value};
use ovolo::compile::{Options, compile};
use ovolo::onnx::proto::{AttributeProto, AttributeType, GraphProto, NodeProto, OperatorSetId};
use ovolo::onnx::{self, ImportOptions};
use ovolo::{Registry, Tensor};
use prost::Message;
use prost::bytes::Bytes;
use std::sync::Arc;

fn text(name: &str, text: &str) -> AttributeProto {
    let s = Bytes::copy_from_slice(text.as_bytes());
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::String as i32,
        s,
        ..AttributeProto::default()
    }
}

fn texts(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Strings as i32,
        strings,
        ..AttributeProto::default()
    }
}

fn gradient(inputs: &[&str], outputs: &[&str], by: &[&str], fixed: &[&str], of: &str) -> NodeProto {
    let mut node = of_domain("ai.onnx.preview.training", node("Gradient", inputs, outputs));
    node.attribute = vec![texts("xs", by), text("y", of)];
    if !fixed.is_empty() {
        node.attribute.push(texts("zs", fixed));
    }
    node
}

/// Runs a model of `a * b + a` with a node on 2, 5 and 7 for `a`, `b` and `z`.
fn run(gradient: NodeProto, outputs: &[&str]) -> Result<Vec<f64>, String> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    ovolo_train::register(&mut registry).unwrap();
    let registry = Arc::new(registry);
    let graph = GraphProto {
        input: ["a", "b", "z"].map(|name| value(name, FLOAT, &[])).to_vec(),
        output: outputs.iter().map(|name| value(name, FLOAT, &[])).collect(),
        node: vec![node("Mul", &["a", "b"], &["product"]), node("Add", &["product", "a"], &["y"]), gradient],
        ..GraphProto::default()
    };
    let mut model = model(17, graph);
    model.opset_import.push(OperatorSetId { domain: "ai.onnx.preview.training".to_owned(), version: 1 });
    let imported =
        onnx::from_bytes(registry.onnx(), model.encode_to_vec(), "small", &ImportOptions::default());
    let graph = imported.map_err(|why| why.to_string())?.graph;
    let options = Options::new(&registry, "native").unwrap().with_threads(1);
    let mut session = compile(graph, &options).unwrap().session(registry.backends()).unwrap();
    let given = [2.0_f32, 5.0, 7.0].map(Tensor::scalar);
    let found = session.run(&given.iter().collect::<Vec<_>>()).unwrap();
    Ok(found.iter().map(|value| value.to_f64()[0]).collect())
}

#[test]
fn gradients_are_those_of_the_graph_so_far() {
    let both = gradient(&["a", "b"], &["da", "db"], &["a", "b"], &[], "y");
    assert_eq!(run(both, &["da", "db"]).unwrap(), [6.0, 2.0]);
    let one = gradient(&["b", "a"], &["db"], &["b"], &["a"], "product");
    assert_eq!(run(one, &["db"]).unwrap(), [2.0]);
    // What `y` does not depend on has the gradient 0.
    let none = gradient(&["z"], &["dz"], &["z"], &[], "y");
    assert_eq!(run(none, &["dz"]).unwrap(), [0.0]);
}

#[test]
fn operands_take_the_place_of_the_values_that_are_named() {
    let other = gradient(&["a", "z"], &["da", "db"], &["a", "b"], &[], "y");
    assert_eq!(run(other, &["da", "db"]).unwrap(), [8.0, 2.0]);
    let fixed = gradient(&["a", "z"], &["da"], &["a"], &["b"], "y");
    assert_eq!(run(fixed, &["da"]).unwrap(), [8.0]);
}

#[test]
fn what_is_wrong_is_told() {
    let why = run(gradient(&["a"], &["da"], &["a", "b"], &[], "y"), &["da"]).unwrap_err();
    assert!(why.contains("`xs` and `zs` have 2 names for 1 operands"), "{why}");
    let why = run(gradient(&["a"], &["da"], &["a"], &[], "later"), &["da"]).unwrap_err();
    assert!(why.contains("`later`: no node before this one computes the value `y`"), "{why}");
}

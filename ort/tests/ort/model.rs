//! Small models.

use crate::onnx::{FLOAT, model, node, value};
use ovolo::onnx::proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto, ValueInfoProto};

/// A model of these nodes.
pub fn of(nodes: Vec<NodeProto>, input: Vec<ValueInfoProto>, output: Vec<ValueInfoProto>) -> ModelProto {
    model(21, GraphProto { name: "main".to_owned(), node: nodes, input, output, ..GraphProto::default() })
}

/// `sum = a + b` and `product = a * b` for vectors of three floats.
pub fn arithmetic() -> ModelProto {
    let nodes = vec![node("Add", &["a", "b"], &["sum"]), node("Mul", &["a", "b"], &["product"])];
    let vector = |name| value(name, FLOAT, &["3"]);
    of(nodes, vec![vector("a"), vector("b")], vec![vector("sum"), vector("product")])
}

/// `y = x + x` for a matrix of any size.
pub fn doubled(elements: i32) -> ModelProto {
    let matrix = |name| value(name, elements, &["rows", "columns"]);
    of(vec![node("Add", &["x", "x"], &["y"])], vec![matrix("x")], vec![matrix("y")])
}

/// `y = x` for a matrix of any size and any type, and with it what a model says of itself.
pub fn passed(elements: i32) -> ModelProto {
    let matrix = |name| value(name, elements, &["rows", "columns"]);
    let made = of(vec![node("Identity", &["x"], &["y"])], vec![matrix("x")], vec![matrix("y")]);
    ModelProto {
        producer_name: "a test".to_owned(),
        domain: "ovolo".to_owned(),
        doc_string: "gives back what it gets".to_owned(),
        model_version: 3,
        metadata_props: vec![StringStringEntryProto { key: "author".to_owned(), value: "nobody".to_owned() }],
        ..made
    }
}

/// `y` has the elements of `x` in a shape that is an input.
pub fn reshaped() -> ModelProto {
    let nodes = vec![node("Reshape", &["x", "shape"], &["y"])];
    let inputs = vec![value("x", FLOAT, &["6"]), value("shape", crate::onnx::INT64, &["2"])];
    of(nodes, inputs, vec![value("y", FLOAT, &["", ""])])
}

//! Marks where a model drops elements: the importer leaves `Dropout` out, since it does nothing in inference.

use super::initializer::value;
use ovolo::DType;
use ovolo::onnx::proto::{
    DimensionProto, GraphProto, NodeProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use std::collections::BTreeSet;

/// The share that a `Dropout` without a ratio drops.
const RATIO: f64 = 0.5;

/// Replaces each `Dropout` of the main graph by a choice between its operand and itself, and adds an input of a truth value
/// for each, by which it chooses. Returns these inputs with the ratios. A `Dropout` whose mask is read stays as it is.
///
/// # Errors
/// A ratio is no constant, or out of range.
pub(crate) fn dropouts(graph: &mut GraphProto) -> Result<Vec<(String, f64)>, String> {
    let read: BTreeSet<&String> = graph.node.iter().flat_map(|node| &node.input).collect();
    let outputs: BTreeSet<&String> = graph.output.iter().map(|output| &output.name).collect();
    let used = |name: &String| !name.is_empty() && (read.contains(name) || outputs.contains(name));
    let mut found = Vec::new();
    for (at, node) in graph.node.iter().enumerate() {
        let own = node.op_type == "Dropout" && matches!(node.domain.as_str(), "" | "ai.onnx");
        if let (true, [operand, ..], [output, rest @ ..]) = (own, &node.input[..], &node.output[..])
            && !rest.iter().any(used)
        {
            let ratio = ratio(graph, node).ok_or_else(|| {
                format!("dropout `{output}`: its ratio is no constant of at least 0 and less than 1")
            })?;
            found.push((at, operand.clone(), output.clone(), ratio));
        }
    }
    let mut marks = Vec::with_capacity(found.len());
    for (at, operand, output, ratio) in found {
        let mark = format!("{output}.is-kept");
        graph.node[at] = NodeProto {
            op_type: "Where".to_owned(),
            input: vec![mark.clone(), operand.clone(), operand],
            output: vec![output],
            ..NodeProto::default()
        };
        graph.input.push(truth(&mark));
        marks.push((mark, ratio));
    }
    Ok(marks)
}

/// Returns the ratio of a dropout: an attribute up to opset 11, and then an operand.
fn ratio(graph: &GraphProto, node: &NodeProto) -> Option<f64> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == "ratio");
    let ratio = match (attribute, node.input.get(1).filter(|name| !name.is_empty())) {
        (Some(attribute), _) => f64::from(attribute.f),
        (None, None) => RATIO,
        (None, Some(name)) => {
            let made =
                graph.node.iter().find(|node| node.op_type == "Constant" && node.output.contains(name));
            let given = made.and_then(|node| node.attribute.first());
            match given.and_then(|attribute| attribute.t.as_ref()) {
                None if given.is_some_and(|attribute| attribute.name == "value_float") => f64::from(given?.f),
                Some(tensor) => *value(tensor).ok()?.to_f64().first()?,
                None => {
                    let tensor = graph.initializer.iter().find(|tensor| tensor.name == *name)?;
                    *value(tensor).ok()?.to_f64().first()?
                }
            }
        }
    };
    (0.0..1.0).contains(&ratio).then_some(ratio)
}

/// Returns the declaration of an input of one truth value.
fn truth(name: &str) -> ValueInfoProto {
    let shape = TensorShapeProto { dim: Vec::<DimensionProto>::new() };
    let tensor_type = Some(TensorTypeProto { elem_type: DType::Bool.onnx_number(), shape: Some(shape) });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
}

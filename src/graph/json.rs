//! A graph as JSON, for other programs to read: nodes, types and attributes, but not the bytes of constants.
//!
//! ```json
//! {
//!   "name": "tiny",
//!   "nodes": [
//!     {"name": "x", "op": "input", "inputs": [], "attrs": {},
//!      "type": {"text": "f32[1,4]", "dtype": "f32", "shape": [1, 4], "layout": "plain", "device": "host"}},
//!     {"name": "y", "op": "relu", "inputs": ["x"], "attrs": {}, "type": …}
//!   ],
//!   "outputs": [{"name": "y", "value": "y"}]
//! }
//! ```
//!
//! A constant also has a member `hash`, which is the hash of its bytes as in the text form. All attributes are
//! written, including those that equal their default: integers, numbers and lists of integers as such, and
//! everything else (and floats that JSON cannot represent) as text.

use super::{CONST, Graph, NodeId, text};
use crate::attr::Attr;
use crate::tensor::TensorType;
use serde_json::{Map, Value, json};

/// Returns the graph as a JSON value.
pub fn to_json(graph: &Graph) -> Value {
    let nodes: Vec<Value> = graph.nodes().map(|(id, _)| node(graph, id)).collect();
    let outputs: Vec<Value> =
        graph.outputs().map(|(name, id)| json!({"name": &**name, "value": &*graph[id].name})).collect();
    json!({"name": graph.name(), "nodes": nodes, "outputs": outputs})
}

fn node(graph: &Graph, id: NodeId) -> Value {
    let node = &graph[id];
    let inputs: Vec<&str> = node.inputs.iter().map(|&input| &*graph[input].name).collect();
    let attrs: Map<String, Value> =
        node.attrs.iter().map(|(name, value)| (name.to_owned(), attr(value))).collect();
    let mut object = json!({
        "name": &*node.name,
        "op": node.op,
        "inputs": inputs,
        "attrs": attrs,
        "type": ty(&node.ty),
    });
    if node.op == CONST {
        object["hash"] = graph
            .constant(id)
            .map_or(Value::Null, |value| format!("{:016x}", text::content_hash(value)).into());
    }
    object
}

/// Returns a type as a JSON value.
pub(crate) fn ty(ty: &TensorType) -> Value {
    json!({
        "text": ty.to_string(),
        "dtype": ty.dtype.name(),
        "shape": ty.shape.to_vec(),
        "layout": ty.layout.to_string(),
        "device": ty.device.to_string(),
    })
}

/// Returns an attribute as a JSON value.
pub(crate) fn attr(attr: &Attr) -> Value {
    match attr {
        Attr::Int(value) => (*value).into(),
        Attr::Float(value) if value.0.is_finite() => value.0.into(),
        Attr::Ints(values) => values.as_slice().into(),
        Attr::Str(text) => (&**text).into(),
        other => other.to_string().into(),
    }
}

//! The parts of ONNX models, for tests that make models of their own.
#![allow(dead_code)]

use ovolo::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::bytes::Bytes;

/// ONNX's numbers of element types.
pub const FLOAT: i32 = 1;
pub const INT64: i32 = 7;
pub const BOOL: i32 = 9;

/// An input or output. A dimension is a number, a symbol, or an empty text if nothing is known of it.
pub fn value(name: &str, elem_type: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = dims.iter().map(|dim| match dim.parse() {
        Ok(number) => DimensionProto { dim_value: Some(number), dim_param: None },
        Err(_) if dim.is_empty() => DimensionProto::default(),
        Err(_) => DimensionProto { dim_value: None, dim_param: Some((*dim).to_owned()) },
    });
    let shape = Some(TensorShapeProto { dim: dim.collect() });
    let tensor_type = Some(TensorTypeProto { elem_type, shape });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
}

/// An output whose type the model does not say.
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.to_owned(), r#type: None }
}

/// A node of ONNX's own domain, without a name and attributes.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let strings = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    NodeProto {
        op_type: op.to_owned(),
        input: strings(inputs),
        output: strings(outputs),
        ..NodeProto::default()
    }
}

/// The node with a name.
pub fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto { name: name.to_owned(), ..node }
}

/// The node in another domain.
pub fn of_domain(domain: &str, node: NodeProto) -> NodeProto {
    NodeProto { domain: domain.to_owned(), ..node }
}

/// The node with one more attribute.
fn with(attribute: AttributeProto, kind: AttributeType, name: &str, mut node: NodeProto) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.to_owned(), r#type: kind as i32, ..attribute });
    node
}

/// The node with an attribute that is an integer.
pub fn int(name: &str, i: i64, node: NodeProto) -> NodeProto {
    with(AttributeProto { i, ..AttributeProto::default() }, AttributeType::Int, name, node)
}

/// The node with an attribute that is a list of integers.
pub fn ints(name: &str, values: &[i64], node: NodeProto) -> NodeProto {
    let attribute = AttributeProto { ints: values.to_vec(), ..AttributeProto::default() };
    with(attribute, AttributeType::Ints, name, node)
}

/// The node with an attribute that is a text.
pub fn text(name: &str, text: &str, node: NodeProto) -> NodeProto {
    let s = Bytes::copy_from_slice(text.as_bytes());
    with(AttributeProto { s, ..AttributeProto::default() }, AttributeType::String, name, node)
}

/// The node with an attribute that is a graph.
pub fn body(name: &str, graph: GraphProto, node: NodeProto) -> NodeProto {
    let attribute = AttributeProto { g: Some(Box::new(graph)), ..AttributeProto::default() };
    with(attribute, AttributeType::Graph, name, node)
}

/// An initializer of floats.
pub fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let (name, dims, float_data) = (name.to_owned(), dims.to_vec(), values.to_vec());
    TensorProto { name, dims, data_type: FLOAT, float_data, ..TensorProto::default() }
}

/// An initializer that is a list of integers.
pub fn longs(name: &str, values: &[i64]) -> TensorProto {
    let dims = vec![i64::try_from(values.len()).expect("a list is short")];
    let (name, int64_data) = (name.to_owned(), values.to_vec());
    TensorProto { name, dims, data_type: INT64, int64_data, ..TensorProto::default() }
}

/// A model of one graph and a version of ONNX's own operators.
pub fn model(version: i64, graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetId { domain: String::new(), version }];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
}

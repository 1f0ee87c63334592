//! The layers that can be quantised.

use ovolo::onnx::proto::{GraphProto, NodeProto, TensorProto};
use std::collections::BTreeMap;

/// The number of binary32 among ONNX's types of elements.
const FLOAT: i32 = 1;

/// A node whose weights are constant: a convolution or a matrix product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of its result, by which it is called.
    pub name: String,
    /// Its operator: `Conv`, `Gemm` or `MatMul`.
    pub operator: String,
    /// The value that it reads, which gets `u8` levels.
    pub input: String,
    /// The initializer of its weights, which gets `i8` levels.
    pub weights: String,
    /// The axis of the weights along which its output channels are.
    pub axis: usize,
    /// The initializer of its bias, if it has one in the shape of the output channels.
    pub bias: Option<String>,
    /// The position of the node in the model.
    pub(crate) node: usize,
}

/// Returns the layers of a graph in the order of its nodes. The weights and the input must be of binary32; the input is
/// no constant.
pub(crate) fn layers(graph: &GraphProto) -> Vec<Layer> {
    let constants: BTreeMap<&str, &TensorProto> =
        graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    graph.node.iter().enumerate().filter_map(|(at, node)| layer(at, node, &constants)).collect()
}

fn layer(at: usize, node: &NodeProto, constants: &BTreeMap<&str, &TensorProto>) -> Option<Layer> {
    if !matches!(node.domain.as_str(), "" | "ai.onnx") {
        return None;
    }
    let [input, weights, ..] = node.input.as_slice() else { return None };
    let found = constants.get(weights.as_str()).filter(|tensor| tensor.data_type == FLOAT)?;
    if input.is_empty() || constants.contains_key(input.as_str()) {
        return None;
    }
    let rank = found.dims.len();
    let axis = match node.op_type.as_str() {
        "Conv" if rank >= 3 => 0,
        "Gemm" if rank == 2 => usize::from(integer(node, "transB", 0) == 0),
        "MatMul" if rank >= 2 => rank - 1,
        _ => return None,
    };
    let plain = real(node, "alpha") && real(node, "beta");
    let bias = node.input.get(2).filter(|_| node.op_type != "MatMul" && plain);
    let fits = |tensor: &&TensorProto| tensor.data_type == FLOAT && tensor.dims == [found.dims[axis]];
    let bias = bias.filter(|name| constants.get(name.as_str()).is_some_and(fits));
    Some(Layer {
        name: node.output.first()?.clone(),
        operator: node.op_type.clone(),
        input: input.clone(),
        weights: weights.clone(),
        axis,
        bias: bias.cloned(),
        node: at,
    })
}

fn integer(node: &NodeProto, name: &str, otherwise: i64) -> i64 {
    node.attribute.iter().find(|attribute| attribute.name == name).map_or(otherwise, |found| found.i)
}

/// Returns whether a factor of the node is 1, as it is unless the node says otherwise.
#[allow(clippy::float_cmp)]
fn real(node: &NodeProto, name: &str) -> bool {
    node.attribute.iter().find(|attribute| attribute.name == name).is_none_or(|found| found.f == 1.0)
}

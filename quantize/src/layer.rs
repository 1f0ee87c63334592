//! The layers that can be quantised.

use ovolo::onnx::proto::{GraphProto, NodeProto, TensorProto};
use std::collections::{BTreeMap, BTreeSet};

/// The number of binary32 among ONNX's types of elements.
const FLOAT: i32 = 1;

/// Operators whose result has the type of the first operand, between layers and before them.
const KEEPS_TYPE: &[&str] = &[
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Clip",
    "Concat",
    "Div",
    "Dropout",
    "Elu",
    "Erf",
    "Flatten",
    "Gelu",
    "GlobalAveragePool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "InstanceNormalization",
    "LayerNormalization",
    "LeakyRelu",
    "MaxPool",
    "Mul",
    "PRelu",
    "Pad",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Softmax",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
    "Unsqueeze",
];

/// A node that can compute with levels: one whose weights are constant, that is a convolution or a matrix product, or a
/// sum of two values, or a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of its result, by which it is called.
    pub name: String,
    /// Its operator: `Conv`, `ConvTranspose`, `Gemm`, `MatMul`, `Add`, `MaxPool`, `AveragePool` or `GlobalAveragePool`.
    pub operator: String,
    /// The values that it reads, which get `u8` levels: its first operands.
    pub inputs: Vec<String>,
    /// Its weights, if it has any: the operand after these values.
    pub weights: Option<Weights>,
    /// The position of the node in the model.
    pub(crate) node: usize,
}

/// The constants of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The initializer of the weights, which gets `i8` levels.
    pub name: String,
    /// The axis of the weights along which its output channels are.
    pub axis: usize,
    /// The initializer of the bias, if there is one in the shape of the output channels.
    pub bias: Option<String>,
}

/// Returns the layers of a graph in the order of its nodes. What they read must be of binary32, and no constant but for
/// the weights.
pub(crate) fn layers(graph: &GraphProto) -> Vec<Layer> {
    let mut reader = Reader {
        constants: graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
        floats: BTreeSet::new(),
    };
    for input in &graph.input {
        let ty = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
        if ty.is_some_and(|ty| ty.elem_type == FLOAT) && !reader.constants.contains_key(input.name.as_str()) {
            reader.floats.insert(&input.name);
        }
    }
    graph.node.iter().enumerate().filter_map(|(at, node)| reader.layer(at, node)).collect()
}

/// Reads the nodes of a graph in order.
struct Reader<'a> {
    constants: BTreeMap<&'a str, &'a TensorProto>,
    /// The values that are known to be of binary32 and no constants.
    floats: BTreeSet<&'a str>,
}

impl<'a> Reader<'a> {
    fn layer(&mut self, at: usize, node: &'a NodeProto) -> Option<Layer> {
        if !matches!(node.domain.as_str(), "" | "ai.onnx") {
            return None;
        }
        let operator = node.op_type.as_str();
        let name = node.output.first()?;
        let weights = self.weights(node);
        let is_float = |operand: &String| self.floats.contains(operand.as_str());
        let keeps = KEEPS_TYPE.contains(&operator) && node.input.first().is_some_and(is_float);
        let count = match operator {
            _ if weights.is_some() => 1,
            "Add" if keeps && node.input.iter().all(is_float) => 2,
            // The positions of the greatest elements are not those of the greatest levels.
            "MaxPool" if keeps && node.output.len() == 1 => 1,
            "AveragePool" | "GlobalAveragePool" if keeps => 1,
            _ => 0,
        };
        if keeps || weights.is_some() {
            self.floats.insert(name);
        }
        let inputs = node.input.get(..count).filter(|inputs| !inputs.is_empty())?.to_vec();
        Some(Layer { name: name.clone(), operator: operator.to_owned(), inputs, weights, node: at })
    }

    /// Returns the weights of a node, if it is a convolution or a product with a constant.
    fn weights(&self, node: &NodeProto) -> Option<Weights> {
        let [input, weights, ..] = node.input.as_slice() else { return None };
        let found = self.constants.get(weights.as_str()).filter(|tensor| tensor.data_type == FLOAT)?;
        if input.is_empty() || self.constants.contains_key(input.as_str()) {
            return None;
        }
        let rank = found.dims.len();
        let axis = match node.op_type.as_str() {
            "Conv" if rank >= 3 => 0,
            // With groups, an output channel of each group has the same scale.
            "ConvTranspose" if rank >= 3 => 1,
            "Gemm" if rank == 2 => usize::from(integer(node, "transB", 0) == 0),
            "MatMul" if rank >= 2 => rank - 1,
            _ => return None,
        };
        let plain = real(node, "alpha") && real(node, "beta");
        let bias = node.input.get(2).filter(|_| node.op_type != "MatMul" && plain);
        let fits = |tensor: &&TensorProto| tensor.data_type == FLOAT && tensor.dims == [found.dims[axis]];
        let bias = bias.filter(|name| self.constants.get(name.as_str()).is_some_and(fits));
        Some(Weights { name: weights.clone(), axis, bias: bias.cloned() })
    }
}

fn integer(node: &NodeProto, name: &str, otherwise: i64) -> i64 {
    node.attribute.iter().find(|attribute| attribute.name == name).map_or(otherwise, |found| found.i)
}

/// Returns whether a factor of the node is 1, as it is unless the node says otherwise.
#[allow(clippy::float_cmp)]
fn real(node: &NodeProto, name: &str) -> bool {
    node.attribute.iter().find(|attribute| attribute.name == name).is_none_or(|found| found.f == 1.0)
}

//! The graph of attention, derived from the types of a call: the product of queries and keys, the scale, the mask,
//! softmax, and the product with the values. The library's flash-attention engines compute it without storing the
//! scores.

use super::operation::{Function, Graph, GraphValue, Operation, ValuePlace, strides};
use crate::library;
use ovolo::op::Call;
use ovolo::tensor::DType;

/// The first version whose graphs have softmax as one operation: 9.21.
pub(in crate::cudnn) const SOFTMAX: usize = 92_100;
/// Head sizes must be multiples of the first number and at most the second.
const HEAD: (usize, usize) = (8, 256);

/// Returns an error if the version of the library does not support attention.
pub(super) fn supported(call: &Call<'_>) -> Result<(), String> {
    let found = library::cudnn().map_err(|why| format!("cuDNN is {why}"))?;
    if call.op == "cudnn.attention" && found.calls.version() < SOFTMAX {
        return Err(format!(
            "cuDNN {} has no softmax in its graphs: install version 9.21 or newer",
            found.version
        ));
    }
    Ok(())
}

/// Returns the graph of an attention call.
///
/// # Errors
/// If the library has no engine for it.
pub(super) fn graph(call: &Call<'_>) -> Result<Graph, String> {
    let dtype = call.output.dtype;
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return Err(format!("the element type is {dtype}: the library's attention supports f16 and bf16"));
    }
    if call.inputs.iter().chain([&call.output]).any(|ty| ty.shape.contains(&0)) {
        return Err("a dimension is 0".to_owned());
    }
    for size in [call.inputs[0].shape[3], call.inputs[2].shape[3]] {
        if size % HEAD.0 != 0 || size > HEAD.1 {
            return Err(format!(
                "a head size is {size}: the library supports multiples of {} up to {}",
                HEAD.0, HEAD.1
            ));
        }
    }
    let mut graph = Graph::new(dtype, false);
    let q = graph.add(GraphValue::operand(0, call.inputs[0])?);
    // The keys are read as a transposed matrix, without a copy.
    let mut keys = GraphValue::operand(1, call.inputs[1])?;
    keys.sizes.swap(2, 3);
    keys.strides.swap(2, 3);
    let sizes = [keys.sizes[0], keys.sizes[1], call.inputs[0].shape[2], keys.sizes[3]];
    let k = graph.add(keys);
    let v = graph.add(GraphValue::operand(2, call.inputs[2])?);
    let like =
        GraphValue { sizes, strides: strides(sizes, false), dtype: DType::F32, place: ValuePlace::Between };
    let mut scores = graph.add(like);
    graph.operations.push(Operation::Product { a: q, b: k, y: scores });
    let scale = call.attrs.expect_float("scale");
    #[allow(clippy::float_cmp)]
    if scale != 1.0 {
        let factor = graph.number(scale);
        scores = graph.pointwise(Function::Mul, scores, Some(factor));
    }
    if let Some(mask) = call.inputs.get(3) {
        let mask = graph.add(GraphValue::operand(3, mask)?);
        scores = graph.pointwise(Function::Add, scores, Some(mask));
    }
    let weights = graph.between(scores);
    graph.values[weights].dtype = dtype;
    graph.operations.push(Operation::Softmax { x: scores, y: weights });
    let sizes = <[usize; 4]>::try_from(&call.output.shape[..]).map_err(|_| "no heads".to_owned())?;
    let result = GraphValue { sizes, strides: strides(sizes, false), dtype, place: ValuePlace::Output };
    let result = graph.add(result);
    graph.operations.push(Operation::Product { a: weights, b: v, y: result });
    Ok(graph)
}

//! The graph of attention, derived from the types of a call: the product of queries and keys, the scale, the mask,
//! softmax, and the product with the values. The library's flash-attention engines compute it without storing the
//! scores.

use super::operation::{Function, Graph, GraphValue, Operation, Reduction, ValuePlace, strides};
use ovolo::op::Call;
use ovolo::op::attention::AxisOrder;
use ovolo::tensor::{DType, TensorType};

/// The first version whose graphs have softmax as one operation: 9.21. Older ones compose it of others.
pub(super) const SOFTMAX: usize = 92_100;
/// Head sizes must be multiples of the first number and at most the second.
const HEAD: (usize, usize) = (8, 256);

/// Returns the graph of an attention call for a version of the library.
///
/// # Errors
/// If the library has no engine for it.
pub(super) fn graph(call: &Call<'_>, version: usize) -> Result<Graph, String> {
    let dtype = call.output.dtype;
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return Err(format!("the element type is {dtype}: the library's attention supports f16 and bf16"));
    }
    if call.inputs.iter().chain([&call.output]).any(|ty| ty.shape.contains(&0)) {
        return Err("a dimension is 0".to_owned());
    }
    if call.attrs.expect_int("nan_as_zero") == 1 {
        return Err("the library's softmax does not replace NaN by 0".to_owned());
    }
    let order = AxisOrder::new(call.attrs).map_err(|why| why.to_string())?;
    // Values have the sizes and strides of batch, head, row and column, in whatever order they are stored.
    let value = |ty: &TensorType, place: ValuePlace| GraphValue {
        sizes: order.sizes(&ty.shape),
        strides: order.strides(&ty.shape),
        dtype: ty.dtype,
        place,
    };
    for size in [call.inputs[0].shape[3], call.inputs[2].shape[3]] {
        if size % HEAD.0 != 0 || size > HEAD.1 {
            return Err(format!(
                "a head size is {size}: the library supports multiples of {} up to {}",
                HEAD.0, HEAD.1
            ));
        }
    }
    let mut graph = Graph::new(dtype, false);
    let q = graph.add(value(call.inputs[0], ValuePlace::Input(0)));
    // The keys are read as a transposed matrix, without a copy.
    let mut keys = value(call.inputs[1], ValuePlace::Input(1));
    keys.sizes.swap(2, 3);
    keys.strides.swap(2, 3);
    let sizes = [keys.sizes[0], keys.sizes[1], graph.values[q].sizes[2], keys.sizes[3]];
    let k = graph.add(keys);
    let v = graph.add(value(call.inputs[2], ValuePlace::Input(2)));
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
    let weights = if version < SOFTMAX {
        composed_softmax(&mut graph, scores)
    } else {
        let weights = graph.between(scores);
        graph.operations.push(Operation::Softmax { x: scores, y: weights });
        weights
    };
    graph.values[weights].dtype = dtype;
    let result = graph.add(value(call.output, ValuePlace::Output));
    graph.operations.push(Operation::Product { a: weights, b: v, y: result });
    Ok(graph)
}

/// Adds a softmax along rows as the operations by which versions before 9.21 recognise attention. Returns its result.
/// The logarithm of each row's sum is one of them, although nothing reads it: without it no engine takes a scale.
fn composed_softmax(graph: &mut Graph, scores: usize) -> usize {
    let most = graph.reduction(Reduction::Max, scores);
    let shifted = graph.pointwise(Function::Sub, scores, Some(most));
    let exponentials = graph.pointwise(Function::Exp, shifted, None);
    let total = graph.reduction(Reduction::Sum, exponentials);
    let log = graph.pointwise(Function::Log, total, None);
    graph.pointwise(Function::Add, most, Some(log));
    graph.pointwise(Function::Div, exponentials, Some(total))
}

//! Matrix products.

use super::broadcast::Broadcast;
use super::independence::aligned;
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, plain, post};
use crate::attr::Attrs;
use crate::tensor::{Shape, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "matmul",
        doc: "matrix product over the last two dimensions, with the other dimensions broadcast, then a post chain",
        arity: Arity::Post(2),
        attrs: vec![AttrDef::post()],
        flags: Flags::independent(factors),
        infer,
        eval,
        flops,
        sample: None,
        lowered: None,
    }]
}

/// The rows of a, the columns of b and the axes of the batch are kept. Further operands are broadcast: those of the chain
/// to the result, and the zero points of `matmul-integer` to a and b in turn.
pub(super) fn factors(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let chain = attrs.get("post").is_some();
    let own = |(operand, ty): (usize, &&TensorType)| {
        let mut axes = aligned(ty, result);
        let mixed = if operand % 2 == 0 { 1 } else { 2 };
        if let Some(at) = axes.len().checked_sub(mixed).filter(|_| operand < 2 || !chain) {
            axes[at] = None;
        }
        axes
    };
    types.iter().enumerate().map(own).collect()
}

pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let (a, b) = (types[0], types[1]);
    if a.dtype != b.dtype || !a.dtype.is_number() {
        return Err(OpError::operands(format!("the operands are {a} and {b}")));
    }
    if a.shape.rank() < 2 || b.shape.rank() < 2 {
        return Err(OpError::operands(format!(
            "the operands are {a} and {b}: both must have at least two dimensions"
        )));
    }
    let (batch_a, [m, k]) = split(&a.shape);
    let (batch_b, [k2, n]) = split(&b.shape);
    if k != k2 {
        return Err(OpError::operands(format!("the operands are {a} and {b}: {k} columns meet {k2} rows")));
    }
    let batch = batch_a.broadcast(&batch_b).ok_or_else(|| {
        OpError::operands(format!("the operands are {a} and {b}: their batches do not broadcast"))
    })?;
    let mut dims = batch.to_vec();
    dims.extend([m, n]);
    let result = TensorType::plain(a.dtype, dims);
    post::check(attrs.post(), &types[2..], &result)?;
    Ok(result)
}

fn split(shape: &Shape) -> (Shape, [usize; 2]) {
    let rank = shape.rank();
    (Shape::from(&shape[..rank - 2]), [shape[rank - 2], shape[rank - 1]])
}

pub(super) fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [a, b] = [operands[0].ty(), operands[1].ty()].map(|ty| &ty.shape);
    let result = match (operands[0].to_i128(), operands[1].to_i128()) {
        // Integer products are exact, and wrap as on the hardware.
        (Some(left), Some(right)) => {
            let sum = |sum: i128, a: i128, b: i128| sum.wrapping_add(a.wrapping_mul(b));
            let values = product((&left, a), (&right, b), &ty.shape, sum);
            Tensor::from_i128(ty.dtype, ty.shape.clone(), &values)
        }
        _ => {
            let (left, right) = (operands[0].to_f64(), operands[1].to_f64());
            let values = product((&left, a), (&right, b), &ty.shape, |sum, a, b| sum + a * b);
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        }
    };
    post::apply(attrs.post(), &operands[2..], result)
}

/// Multiplies two stacks of matrices. `add(sum, a, b)` must return `sum + a * b`.
fn product<T: Copy + Default>(
    (a, a_shape): (&[T], &Shape),
    (b, b_shape): (&[T], &Shape),
    shape: &Shape,
    add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let (batch, [m, n]) = split(shape);
    let (batch_a, [_, k]) = split(a_shape);
    let (batch_b, _) = split(b_shape);
    let (left, right) = (Broadcast::new(&batch_a, &batch), Broadcast::new(&batch_b, &batch));
    let mut result = vec![T::default(); shape.count()];
    for (index, matrix) in result.chunks_exact_mut((m * n).max(1)).enumerate() {
        let a = &a[left.at(index) * m * k..][..m * k];
        let b = &b[right.at(index) * k * n..][..k * n];
        for (row, out) in matrix.chunks_exact_mut(n).enumerate() {
            for (inner, factor) in a[row * k..][..k].iter().enumerate() {
                for (sum, value) in out.iter_mut().zip(&b[inner * n..][..n]) {
                    *sum = add(*sum, *factor, *value);
                }
            }
        }
    }
    result
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn flops(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    2.0 * count(output) * types[0].shape.last().copied().unwrap_or(1) as f64
}

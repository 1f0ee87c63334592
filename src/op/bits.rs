//! Ops on the bits of integers: `bit-not`, and the types of those of two operands.

use super::independence::broadcast;
use super::{Arity, Draw, Flags, OpDef, OpError, Sample, count, plain};
use crate::attr::Attrs;
use crate::tensor::{DType, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "bit-not",
        doc: "the bits that the operand has not",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags::independent(broadcast),
        infer: |_, types| {
            plain(types)?;
            integer(types, 0)?;
            Ok(types[0].clone())
        },
        eval: |_, operands, ty| {
            let values = operands[0].to_i128().unwrap_or_default();
            let values: Vec<i128> = values.into_iter().map(|value| !value).collect();
            Tensor::from_i128(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, ty| count(ty),
        sample: Some(draw_one),
        lowered: None,
    }]
}

fn integer(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    let ty = types[operand];
    if !ty.dtype.is_integer() {
        return Err(OpError::operand(operand, ty, ", not of integers"));
    }
    Ok(())
}

/// Checks the operands of an op on the bits of two integers.
pub(super) fn infer_pair(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    integer(types, 0)?;
    let (a, b) = (types[0], types[1]);
    match a.shape.broadcast(&b.shape).filter(|_| a.dtype == b.dtype) {
        Some(shape) => Ok(TensorType::plain(a.dtype, shape)),
        None => Err(OpError::operands(format!("the operands are {a} and {b}"))),
    }
}

const INTEGERS: [DType; 6] = [DType::I64, DType::I32, DType::U8, DType::I8, DType::U32, DType::I16];

/// Draws integers.
fn draw_one(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, rank) = (draw.pick(&INTEGERS), draw.below(4));
    Some(Sample::new(Attrs::new(), [TensorType::plain(dtype, draw.shape(rank))]))
}

/// Draws integers, the second operand of which broadcasts.
pub(super) fn draw_pair(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, rank) = (draw.pick(&INTEGERS), draw.below(4));
    let x = draw.shape(rank);
    let y = x[draw.below(rank + 1).min(rank)..].to_vec();
    Some(Sample::new(Attrs::new(), [x, y].map(|shape| TensorType::plain(dtype, shape))))
}

//! Ops on the bits of integers: `bit-and`, `bit-or`, `bit-xor`, `bit-not`, `shift-left` and `shift-right`.

use super::broadcast::Broadcast;
use super::{Arity, Flags, OpDef, OpError, count, plain};
use crate::attr::Attrs;
use crate::tensor::{Tensor, TensorType};

/// Returns the bits of an element for those of two others.
type Combine = fn(i128, i128) -> i128;

pub(super) fn ops() -> Vec<OpDef> {
    macro_rules! binary {
        ($name:literal, $doc:literal, $combine:expr) => {
            OpDef {
                name: $name,
                doc: $doc,
                arity: Arity::Exactly(2),
                attrs: Vec::new(),
                flags: Flags::default(),
                infer: infer_binary,
                eval: |_, operands, ty| eval_binary(operands, ty, $combine),
                flops: |_, _, ty| count(ty),
                lowered: None,
            }
        };
    }
    vec![
        binary!("bit-and", "the bits that both operands have", |a, b| a & b),
        binary!("bit-or", "the bits that either operand has", |a, b| a | b),
        binary!("bit-xor", "the bits that only one operand has", |a, b| a ^ b),
        binary!("shift-left", "the bits of x moved up by y places; none is left if y is negative", |a, b| {
            u32::try_from(b).ok().filter(|places| *places < 64).map_or(0, |places| a << places)
        }),
        binary!(
            "shift-right",
            "the bits of x moved down by y places; only the sign is left if y is negative",
            |a, b| { a >> u32::try_from(b).unwrap_or(64).min(64) }
        ),
        OpDef {
            name: "bit-not",
            doc: "the bits that the operand has not",
            arity: Arity::Exactly(1),
            attrs: Vec::new(),
            flags: Flags::default(),
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
            lowered: None,
        },
    ]
}

fn integer(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    let ty = types[operand];
    if !ty.dtype.is_integer() {
        return Err(OpError::operand(operand, ty, ", not of integers"));
    }
    Ok(())
}

fn infer_binary(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    integer(types, 0)?;
    let (a, b) = (types[0], types[1]);
    match a.shape.broadcast(&b.shape).filter(|_| a.dtype == b.dtype) {
        Some(shape) => Ok(TensorType::plain(a.dtype, shape)),
        None => Err(OpError::operands(format!("the operands are {a} and {b}"))),
    }
}

fn eval_binary(operands: &[&Tensor], ty: &TensorType, combine: Combine) -> Tensor {
    let side = |at: usize| {
        let values = operands[at].to_i128().unwrap_or_default();
        (values, Broadcast::new(&operands[at].ty().shape, &ty.shape))
    };
    let ((a, a_at), (b, b_at)) = (side(0), side(1));
    let values: Vec<i128> = (0..ty.shape.count()).map(|at| combine(a[a_at.at(at)], b[b_at.at(at)])).collect();
    Tensor::from_i128(ty.dtype, ty.shape.clone(), &values)
}

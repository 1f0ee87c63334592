//! Elementwise ops that are neither functions of one number nor arithmetic: `not`, `isnan`, `where`, and
//! chains (`map`).

use super::broadcast::{Broadcast, FLAGS, relayout};
use super::post;
use super::{Arity, AttrDef, Flags, Op, OpDef, OpError, count};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Layout, Tensor, TensorType};
use std::sync::LazyLock;

/// Returns the type of a broadcasting op's result; the caller sets its element type.
fn broadcast(types: &[&TensorType]) -> Result<TensorType, OpError> {
    let mut result: Option<TensorType> = None;
    for (operand, ty) in types.iter().enumerate() {
        let Some(so_far) = &result else {
            result = Some((*ty).clone());
            continue;
        };
        let shape = so_far.shape.broadcast(&ty.shape).ok_or_else(|| {
            OpError::operand(operand, ty, format!(", which does not broadcast with {}", so_far.shape))
        })?;
        let scalar = |ty: &TensorType| ty.layout.is_plain() && ty.shape.count() == 1;
        let layout = match (&so_far.layout, &ty.layout) {
            (a, b) if a == b => a.clone(),
            (a, _) if scalar(ty) => a.clone(),
            (_, b) if scalar(so_far) => b.clone(),
            (a, b) => {
                return Err(OpError::operands(format!("operand {operand} has layout {b}, another has {a}")));
            }
        };
        if !layout.is_plain() {
            let lanes = |ty: &TensorType| {
                scalar(ty)
                    || ty.shape.rank() == shape.rank()
                        && (0..shape.rank()).all(|d| layout.block(d) == 1 || ty.shape[d] == shape[d])
            };
            if !lanes(ty) || !lanes(so_far) {
                return Err(OpError::operand(
                    operand,
                    ty,
                    format!(", which would broadcast over the padding of {layout}"),
                ));
            }
        }
        result = Some(TensorType { shape, layout, ..so_far.clone() });
    }
    result.ok_or_else(|| OpError::operands("there is no operand"))
}

pub(super) fn same_dtype(types: &[&TensorType]) -> Result<(), OpError> {
    match types.iter().position(|ty| ty.dtype != types[0].dtype) {
        None => Ok(()),
        Some(operand) => {
            Err(OpError::operand(operand, types[operand], format!(", operand 0 is {}", types[0])))
        }
    }
}

pub(super) fn infer_number(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    same_dtype(types)?;
    if !types[0].dtype.is_number() {
        return Err(OpError::operands(format!("the operands are {}, not numbers", types[0].dtype)));
    }
    broadcast(types)
}

pub(super) fn infer_comparison(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    same_dtype(types)?;
    if !types[0].dtype.is_number() && types[0].dtype != DType::Bool {
        return Err(OpError::operands(format!("the operands are {}, which has no order", types[0].dtype)));
    }
    Ok(TensorType { dtype: DType::Bool, ..broadcast(types)? })
}

/// Checks the operands of `equal`, which also takes strings.
pub(super) fn infer_equal(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types[0].dtype {
        DType::Text => {
            same_dtype(types)?;
            Ok(TensorType { dtype: DType::Bool, ..broadcast(types)? })
        }
        _ => infer_comparison(attrs, types),
    }
}

pub(super) fn infer_logical(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types.iter().position(|ty| ty.dtype != DType::Bool) {
        None => broadcast(types),
        Some(operand) => Err(OpError::operand(operand, types[operand], ", not bool")),
    }
}

/// Returns the op of a constant with one `f32` element and no dimensions. The right sides of rules write numbers
/// with it.
pub fn scalar() -> Op {
    static SCALAR: LazyLock<Op> = LazyLock::new(|| {
        Op::define(OpDef {
            name: "scalar",
            doc: "a constant of one f32 element and no dimensions",
            arity: Arity::Exactly(0),
            attrs: vec![AttrDef::new("value", AttrKind::Float, None, "the value")],
            flags: Flags::default(),
            infer: |_, _| Ok(TensorType::plain(DType::F32, [0_usize; 0])),
            eval: |attrs, _, ty| {
                Tensor::from_f64(DType::F32, ty.shape.clone(), &[attrs.expect_float("value")])
            },
            flops: |_, _, _| 0.0,
            sample: None,
            lowered: None,
        })
    });
    *SCALAR
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![not(), is_nan(), choice(), map()]
}

fn not() -> OpDef {
    OpDef {
        name: "not",
        doc: "whether x is false",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: FLAGS,
        infer: infer_logical,
        eval: |_, operands, ty| {
            let values: Vec<bool> = operands[0].to_f64().iter().map(|v| *v == 0.0).collect();
            relayout(Tensor::from_bools(ty.shape.clone(), &values), ty)
        },
        flops: |_, _, output| count(output),
        sample: None,
        lowered: None,
    }
}

fn is_nan() -> OpDef {
    OpDef {
        name: "isnan",
        doc: "whether x is not a number",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: FLAGS,
        infer: |_, types| Ok(TensorType { dtype: DType::Bool, ..types[0].clone() }),
        eval: |_, operands, ty| {
            let values: Vec<bool> = operands[0].to_f64().iter().map(|v| v.is_nan()).collect();
            relayout(Tensor::from_bools(ty.shape.clone(), &values), ty)
        },
        flops: |_, _, output| count(output),
        sample: None,
        lowered: None,
    }
}

fn choice() -> OpDef {
    OpDef {
        name: "where",
        doc: "a where the condition holds, else b",
        arity: Arity::Exactly(3),
        attrs: Vec::new(),
        flags: Flags { elementwise: false, ..FLAGS },
        infer: |_, types| {
            if types[0].dtype != DType::Bool {
                return Err(OpError::operand(0, types[0], ", not bool"));
            }
            same_dtype(&types[1..])?;
            Ok(TensorType { dtype: types[1].dtype, ..broadcast(types)? })
        },
        eval: |_, operands, ty| {
            let plain: Vec<Tensor> =
                operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
            let size = ty.dtype.size();
            let index: Vec<Broadcast> =
                plain.iter().map(|t| Broadcast::new(&t.ty().shape, &ty.shape)).collect();
            let mut result = Tensor::zeros(TensorType::plain(ty.dtype, ty.shape.clone()));
            for (at, target) in result.bytes_mut().chunks_exact_mut(size).enumerate() {
                let chosen = if plain[0].bytes()[index[0].at(at)] != 0 { 1 } else { 2 };
                let from = index[chosen].at(at) * size;
                target.copy_from_slice(&plain[chosen].bytes()[from..from + size]);
            }
            relayout(result, ty)
        },
        flops: |_, _, output| count(output),
        sample: None,
        lowered: None,
    }
}

fn map() -> OpDef {
    OpDef {
        name: "map",
        doc: "a chain of elementwise steps",
        arity: Arity::Post(1),
        attrs: vec![AttrDef::post()],
        flags: Flags { elementwise: false, ..FLAGS },
        infer: |attrs, types| {
            if !matches!(types[0].dtype, DType::F32 | DType::F16 | DType::BF16) {
                return Err(OpError::operand(0, types[0], ", none of f32, f16 and bf16"));
            }
            post::check(attrs.post(), &types[1..], types[0])?;
            Ok(types[0].clone())
        },
        eval: |attrs, operands, ty| {
            relayout(post::apply(attrs.post(), &operands[1..], operands[0].to_layout(&Layout::PLAIN)), ty)
        },
        #[allow(clippy::cast_precision_loss)]
        flops: |attrs, _, output| count(output) * attrs.post().len() as f64,
        sample: None,
        lowered: None,
    }
}

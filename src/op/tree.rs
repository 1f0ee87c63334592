//! Trees of elementwise steps: chains that are joined by binary steps.
//!
//! A tree is written as its chain in postfix order, with a stack beside the value. `push` puts the value aside and
//! begins another one with the next operand; `pop-OP` takes what was put aside last as the left side of OP, and the
//! value as its right side. `(a + b) * (c - d)` is `<add,push,sub,pop-mul>` of `a, b, c, d`.

use super::broadcast::{Broadcast, relayout};
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, post};
use crate::attr::{Step, StepOp};
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// Checks that every value that is put aside is taken again, and checks the other steps as those of a chain.
///
/// # Errors
/// A step that needs a value put aside when there is none, a value that is never taken, or an error of
/// [`post::check`].
fn check(steps: &[Step], extras: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    let mut depth = 0_usize;
    let mut rest = extras;
    for step in steps {
        let taken;
        (taken, rest) = rest.split_at(usize::from(post::takes_operand(step)).min(rest.len()));
        if step.op == StepOp::PUSH {
            depth += 1;
            let ty = taken.first().ok_or_else(|| OpError::steps("step `push` lacks its operand"))?;
            post::check_operand(StepOp::PUSH, ty, result)?;
        } else if step.op.joins().is_some() {
            depth = depth
                .checked_sub(1)
                .ok_or_else(|| OpError::steps(format!("nothing is put aside for `{}`", step.op)))?;
        } else {
            post::check(std::slice::from_ref(step), taken, result)?;
        }
    }
    match (depth, rest.len()) {
        (0, 0) => Ok(()),
        (0, more) => {
            Err(OpError::steps(format!("{more} operand(s) more than the tree has steps that take one")))
        }
        (depth, _) => Err(OpError::steps(format!("{depth} value(s) are put aside and not taken"))),
    }
}

/// Evaluates a tree, computing each node in `f64`.
fn apply(steps: &[Step], operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let mut rest = operands.iter();
    let mut spread = || {
        let operand = rest.next().expect("a checked tree has its operands").to_layout(&Layout::PLAIN);
        let values = operand.to_f64();
        let index = Broadcast::new(&operand.ty().shape, &ty.shape);
        (0..ty.shape.count()).map(|position| values[index.at(position)]).collect::<Vec<f64>>()
    };
    let mut value = spread();
    let mut aside: Vec<Vec<f64>> = Vec::new();
    for step in steps {
        if step.op == StepOp::PUSH {
            aside.push(std::mem::replace(&mut value, spread()));
        } else if step.op.joins().is_some() {
            let left = aside.pop().expect("a checked tree has put something aside");
            for (value, left) in value.iter_mut().zip(left) {
                *value = post::combined(step, left, *value);
            }
        } else if post::is_binary(step) {
            for (value, right) in value.iter_mut().zip(spread()) {
                *value = post::combined(step, *value, right);
            }
        } else {
            post::each(step, &mut value);
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &value)
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "tree",
        doc: "chains of elementwise steps that are joined: `push` stores the value and begins a chain with the next \
              operand, `pop-OP` applies OP to the stored value and the current one",
        arity: Arity::Post(1),
        attrs: vec![AttrDef::post()],
        flags: Flags { layout_agnostic: true, ..Flags::default() },
        infer: |attrs, types| {
            if !matches!(types[0].dtype, DType::F32 | DType::F16 | DType::BF16) {
                return Err(OpError::operand(0, types[0], ", none of f32, f16 and bf16"));
            }
            check(attrs.post(), &types[1..], types[0])?;
            Ok(types[0].clone())
        },
        eval: |attrs, operands, ty| relayout(apply(attrs.post(), operands, ty), ty),
        #[allow(clippy::cast_precision_loss)]
        flops: |attrs, _, output| count(output) * attrs.post().len() as f64,
        sample: None,
        lowered: None,
    }]
}

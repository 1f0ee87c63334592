//! Post chains: elementwise steps that are applied to a result.

use super::OpError;
use super::broadcast::Broadcast;
use crate::attr::{Step, StepOp};
use crate::scalar::{Function, Parameter};
use crate::tensor::{Layout, Tensor, TensorType};

/// Applies the binary step of this name, which is one of ovolo's own, to the chain's value `acc` and the operand
/// `extra`; `None` if there is no such step.
#[must_use]
pub fn binary(op: &'static str, acc: f64, extra: f64) -> Option<f64> {
    let op = StepOp::from(op);
    op.binary().map(|_| combined(&Step { op, parameters: Vec::new() }, acc, extra))
}

/// Returns the value of a step of two values, which are in the order of the chain or the tree.
pub(super) fn combined(step: &Step, first: f64, second: f64) -> f64 {
    let reversed = step.op.binary().is_some_and(|(_, reversed)| reversed);
    let operands = if reversed { [second, first] } else { [first, second] };
    step.op.applies().map_or(f64::NAN, |function| function.evaluate(&values(step), &operands))
}

/// Returns the values of a step's parameters.
fn values(step: &Step) -> Vec<f64> {
    step.parameters.iter().map(|one| one.0).collect()
}

/// Returns whether a step takes an extra operand.
#[must_use]
pub fn is_binary(step: &Step) -> bool {
    step.op.binary().is_some()
}

/// Returns whether a step takes an operand, as binary steps do, and the step of a tree that begins another value.
#[must_use]
pub fn takes_operand(step: &Step) -> bool {
    is_binary(step) || step.op == StepOp::PUSH
}

/// Returns the number of extra operands of a chain or a tree.
#[must_use]
pub fn extras(steps: &[Step]) -> usize {
    steps.iter().filter(|step| takes_operand(step)).count()
}

/// Returns whether a step may be one of a chain or a tree.
#[must_use]
pub(crate) fn is_known(step: &Step) -> bool {
    step.op.applies().is_some() || step.op == StepOp::PUSH
}

/// Returns the parameters of a step, which are those of its function.
#[must_use]
pub fn parameters(op: StepOp) -> &'static [Parameter] {
    op.applies().map_or(&[], Function::parameters)
}

/// Checks a chain on a result of type `result` against the types of its extra operands.
///
/// # Errors
/// An unknown step, a wrong number of parameters, or an operand that does not broadcast.
pub fn check(steps: &[Step], extras: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    let mut rest = extras.iter();
    for step in steps {
        if is_binary(step) {
            let Some(ty) = rest.next() else {
                return Err(OpError::steps(format!("post step `{}` lacks its operand", step.op)));
            };
            check_operand(&step.op, ty, result)?;
        } else if step.op.function().is_none() {
            return Err(OpError::steps(format!("`{}` cannot be a post step", step.op)));
        }
        let declared = parameters(step.op);
        if declared.len() != step.parameters.len() {
            return Err(OpError::steps(format!(
                "post step `{}` takes {} parameter(s), not {}",
                step.op,
                declared.len(),
                step.parameters.len()
            )));
        }
    }
    match rest.count() {
        0 => Ok(()),
        more => Err(OpError::steps(format!("{more} operand(s) more than the post chain has binary steps"))),
    }
}

pub(super) fn check_operand(step: &str, ty: &TensorType, result: &TensorType) -> Result<(), OpError> {
    if ty.dtype != result.dtype {
        return Err(OpError::steps(format!(
            "the operand of post step `{step}` is {ty}, the result {result}"
        )));
    }
    let wrong = || {
        Err(OpError::steps(format!(
            "the operand of post step `{step}` is {ty}, which does not broadcast to {result}"
        )))
    };
    if ty.shape.broadcast(&result.shape).as_ref() != Some(&result.shape) {
        return wrong();
    }
    if ty.layout == result.layout {
        let rank_ok = result.layout.is_plain() || ty.shape.rank() == result.shape.rank();
        // If the operand's blocked dimension has size 1, broadcasting along it would read lanes that hold padding.
        let lanes =
            (0..ty.shape.rank()).all(|d| result.layout.block(d) == 1 || ty.shape[d] == result.shape[d]);
        return if rank_ok && lanes { Ok(()) } else { wrong() };
    }
    if ty.layout.is_plain() && ty.shape.count() == 1 { Ok(()) } else { wrong() }
}

/// Applies a step that is a function to each value.
pub(super) fn each(step: &Step, values: &mut [f64]) {
    let function = step.op.function().expect("a checked step without an operand is a function");
    let parameters = self::values(step);
    values.iter_mut().for_each(|value| *value = function.evaluate(&parameters, &[*value]));
}

/// Applies a chain to a tensor in the default layout. The extra operands may have any layout.
#[must_use]
pub fn apply(steps: &[Step], extras: &[&Tensor], value: Tensor) -> Tensor {
    if steps.is_empty() {
        return value;
    }
    let shape = value.ty().shape.clone();
    let dtype = value.ty().dtype;
    let mut values = value.to_f64();
    let mut rest = extras.iter();
    for step in steps {
        if is_binary(step) {
            let extra = rest.next().expect("a checked chain has its operands").to_layout(&Layout::PLAIN);
            let operand = extra.to_f64();
            let index = Broadcast::new(&extra.ty().shape, &shape);
            for (position, value) in values.iter_mut().enumerate() {
                *value = combined(step, *value, operand[index.at(position)]);
            }
        } else {
            each(step, &mut values);
        }
    }
    Tensor::from_f64(dtype, shape, &values)
}

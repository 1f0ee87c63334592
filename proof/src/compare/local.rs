//! Judges steps of a plan on their own operands.

use super::distance::{Distance, TIMES, noise, padding_is_zero, plain, rounding};
use super::{CompareError, Subject};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::collections::BTreeSet;

/// A step, and how far its result is from the reference evaluation of its op on the operands that the step read.
#[derive(Clone, Debug)]
pub struct Local {
    /// The position of the step in the plan.
    pub step: usize,
    /// How far the result is off.
    pub distance: Distance,
    /// How far off the result of a right kernel may be: rounding explains that much.
    pub allowed: f64,
    /// Whether the padding of the result is zero, as it must be.
    pub padded: bool,
}

impl Local {
    /// Returns whether the kernel does not compute what its op says.
    pub fn is_wrong(&self) -> bool {
        !self.padded || self.distance.relative > self.allowed
    }
}

/// Runs a plan, and judges some of its steps.
pub(super) fn judge(
    subject: &Subject<'_>,
    session: &mut Session,
    inputs: &[&Tensor],
    steps: &BTreeSet<usize>,
) -> Result<Vec<Local>, CompareError> {
    let mut judged = Vec::new();
    session.observe(inputs, &|step| steps.contains(&step), &mut |seen| {
        let step = &subject.plan.steps[seen.step];
        let operands: Vec<&Tensor> = seen.operands.iter().collect();
        let should = step.op.evaluate(&step.attrs, &operands, &step.output_type);
        let distance = Distance::between(&seen.result, &should);
        let mut allowed = rounding(step.output_type.dtype);
        if distance.relative > allowed && distance.relative.is_finite() {
            let moved = noise(step.op, &step.attrs, &operands, &step.output_type, &plain(&should));
            allowed = allowed.max(TIMES * moved);
        }
        let padded = padding_is_zero(&seen.result);
        judged.push(Local { step: seen.step, distance, allowed, padded });
    })?;
    Ok(judged)
}

//! Checks that the contracts of a plan's kernels are still those that the plan states.

use crate::op::Call;
use crate::plan::{Base, Plan, Step, Unsound};
use crate::tensor::TensorType;

/// Makes the call of a step and asks a question about it.
pub(super) fn ask<T>(step: &Step, threads: usize, question: impl FnOnce(&Call<'_>) -> T) -> T {
    let types: Vec<&TensorType> = step.input_types.iter().collect();
    let (attrs, output) = (&*step.attrs, &step.output_type);
    question(&Call { op: step.op, attrs, inputs: &types, output, threads })
}

/// Compares a stored plan with the contracts of its kernels now. A kernel that needs more scratch memory than the
/// plan has for it, or other buffers, must not run.
pub(super) fn contracts(plan: &Plan) -> Result<(), Unsound> {
    for step in &plan.steps {
        let contract = ask(step, plan.threads, |call| call.contract())
            .map_err(|why| Unsound::Step { step: step.name.to_string(), why: why.to_string() })?;
        let in_place = step.in_place.filter(|operand| contract.alias != Some(*operand));
        let joined = |operand: &usize| {
            let place = step.inputs.get(*operand).filter(|place| matches!(place.base, Base::Arena(_)));
            let part = contract.parts.get(*operand).map(|part| step.output.offset + part);
            part.is_some() && place.map(|place| place.offset) == part
        };
        let kept = contract.implementation == step.implementation
            && step.joined.iter().all(joined)
            && contract.scratch == step.scratch
            && contract.view_of.is_none()
            && contract.alias == step.copied.or(step.in_place.filter(|_| in_place.is_none()))
            && in_place.is_none_or(|operand| contract.in_place.contains(&operand));
        if !kept {
            let why = format!(
                "the kernel `{}` is now `{}`, or asks for other buffers",
                step.implementation, contract.implementation
            );
            return Err(Unsound::Step { step: step.name.to_string(), why });
        }
    }
    Ok(())
}

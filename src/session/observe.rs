//! Runs a plan and shows each step: what it read, and what it wrote.

use super::{Session, SessionError};
use crate::plan::schedule;
use crate::tensor::{Tensor, TensorType};
use std::sync::Arc;

/// A step that has just run.
#[derive(Debug)]
pub struct Observed {
    /// The position of the step in the plan.
    pub step: usize,
    /// Its operands as they were before it ran, since a step may overwrite an operand.
    pub operands: Vec<Tensor>,
    /// Its result.
    pub result: Tensor,
}

impl Session {
    /// Runs the plan as [`Session::run`] does, step by step, and calls `each` after each step of the host that is
    /// wanted, in the order of execution. The steps read and write the memory that the plan gives them, as in any other
    /// run. Values in the memory of a device are not shown.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn observe(
        &mut self,
        inputs: &[&Tensor],
        wanted: &dyn Fn(usize) -> bool,
        each: &mut dyn FnMut(Observed),
    ) -> Result<&[Tensor], SessionError> {
        self.begin(inputs)?;
        let workspace = Arc::clone(&self.workspace);
        let mut held = workspace.hold();
        self.prepare(inputs, &mut held)?;
        if let Some(runner) = &mut self.runner {
            runner.begin(inputs)?;
        }
        for step in 0..self.host.kernels.len() {
            let on_host = schedule::device(&self.host.plan.steps[step]).is_none();
            if !on_host && let Some(runner) = &mut self.runner {
                runner.alone(step)?;
                continue;
            }
            if !wanted(step) {
                self.host.step(step)?;
                continue;
            }
            let operands = self.operands(step);
            self.host.step(step)?;
            each(Observed { step, operands, result: self.result(step) });
        }
        self.finish(inputs)?;
        Ok(&self.outputs)
    }

    /// Copies the operands of a step of the host.
    fn operands(&self, step: usize) -> Vec<Tensor> {
        let start = self.host.starts[step];
        let types = self.host.plan.steps[step].input_types.iter();
        // SAFETY: `load` has checked that each operand of a step of the host lies within the input, the constant or
        // the arena that it belongs to, and `prepare` has set the addresses of inputs. No step runs meanwhile.
        types.enumerate().map(|(at, ty)| unsafe { copied(self.host.operands[start + at], ty) }).collect()
    }

    /// Copies the result of a step of the host.
    fn result(&self, step: usize) -> Tensor {
        let address = self.host.results[step].cast_const();
        // SAFETY: `load` has checked that the result lies within the arena or the output that it belongs to. No step
        // runs meanwhile.
        unsafe { copied(address, &self.host.plan.steps[step].output_type) }
    }
}

/// Copies a tensor from memory.
///
/// # Safety
/// The bytes of the type can be read at the address.
unsafe fn copied(address: *const u8, ty: &TensorType) -> Tensor {
    let mut tensor = Tensor::zeros(ty.clone());
    let bytes = tensor.bytes_mut();
    // SAFETY: the caller's promise; the tensor is new, so the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), bytes.len()) };
    tensor
}

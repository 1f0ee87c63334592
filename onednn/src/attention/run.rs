//! A run of attention, divided between threads.

use super::program::{Place, Program, Step};
use crate::work::Buffers;
use onednn_sys::Error;
use ovolo::backend::{Args, Kernel};
use std::sync::{Mutex, PoisonError};

/// The bytes to the first element of some heads in each operand, and in the result.
pub(super) struct Offsets {
    pub operands: Vec<usize>,
    pub result: usize,
}

/// The part of one thread.
pub(super) struct Slot {
    /// Programs by their numbers of heads.
    programs: Vec<(usize, Program)>,
    /// The heads of each run.
    runs: Vec<(usize, Offsets)>,
    /// The addresses for the current partition. The vectors are kept, so that a run allocates nothing.
    inputs: Vec<*mut u8>,
    outputs: Vec<*mut u8>,
}

// SAFETY: each run writes the addresses before it reads them.
unsafe impl Send for Slot {}

impl Slot {
    pub(super) fn new(programs: Vec<(usize, Program)>, runs: Vec<(usize, Offsets)>) -> Self {
        let steps = || programs.iter().flat_map(|(_, program)| &program.steps);
        let most = |of: fn(&Step) -> usize| Vec::with_capacity(steps().map(of).max().unwrap_or(0));
        let (inputs, outputs) = (most(|step| step.inputs.len()), most(|step| step.outputs.len()));
        Self { programs, runs, inputs, outputs }
    }

    /// Computes all heads of the slot.
    ///
    /// # Safety
    /// As for [`Kernel::run`]; `scratch` is used by nobody else.
    unsafe fn run(&mut self, args: &Args<'_>, scratch: *mut u8, scale: &f32) -> Result<(), Error> {
        for (heads, offsets) in &self.runs {
            let program = self.programs.iter_mut().find(|(number, _)| number == heads);
            let Some((_, program)) = program else { continue };
            let at = |place: &Place| match *place {
                Place::Operand(operand) => {
                    args.inputs[operand].wrapping_add(offsets.operands[operand]).cast_mut()
                }
                Place::Result => args.output.wrapping_add(offsets.result),
                Place::Scale => std::ptr::from_ref(scale).cast_mut().cast(),
                Place::Scratch(bytes) => scratch.wrapping_add(bytes),
            };
            for Step { partition, inputs, outputs } in &mut program.steps {
                self.inputs.clear();
                self.inputs.extend(inputs.iter().map(at));
                self.outputs.clear();
                self.outputs.extend(outputs.iter().map(at));
                // SAFETY: the places are parts of the step's buffers, and have the sizes of the values with which the
                // partition was compiled. Threads write different heads of the result, and use their own scratch
                // memory. The library only reads operands and the factor.
                unsafe { partition.run(&self.inputs, &self.outputs) }?;
            }
        }
        Ok(())
    }
}

/// Attention that is divided between threads by heads.
pub(super) struct Heads {
    pub slots: Vec<Mutex<Slot>>,
    /// The scratch bytes of a thread.
    pub scratch: usize,
    /// The factor of the scores.
    pub scale: f32,
}

impl Kernel for Heads {
    unsafe fn run(&self, args: &Args<'_>) {
        let buffers = Buffers(args);
        let failed = Mutex::new(None);
        args.team.run(self.slots.len(), |index| {
            let args = buffers.args();
            let scratch = args.scratch.wrapping_add(index * self.scratch);
            let mut slot = self.slots[index].lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller guarantees the buffers, and each thread has its part of the scratch memory.
            if let Err(error) = unsafe { slot.run(args, scratch, &self.scale) } {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            panic!("oneDNN cannot run a partition that it has compiled: {error}");
        }
    }
}

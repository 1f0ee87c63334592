//! Backends: who can run a lowered op, under which contract, and the kernels themselves.
//!
//! For given types a backend answers for each lowered op: supported or why not, the
//! implementation's name, and its contract with the memory planner. All of it is asked before
//! memory is planned, of exactly the implementation that was chosen.

#[cfg(test)]
mod check;
pub mod cuda;
pub mod features;
pub mod native;
pub mod onednn;
pub mod seat;
pub mod team;

pub use crate::contract::{Call, Contract};
use crate::graph::NodeId;
use crate::plan::Plan;
use crate::plan::schedule::Schedule;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use team::Team;

/// A kernel for fixed types, attributes and threads. Built once, run many times.
pub trait Kernel: Send + Sync {
    /// Computes the result. Does not allocate.
    fn run(&self, args: &Args<'_>);

    /// Seconds that the last run took on a device, copies there and back apart; nothing of kernels of the host,
    /// which are timed from outside.
    fn seconds(&self) -> Option<f64> {
        None
    }
}

/// The buffers of one step. Lengths are those of the types in the [`Call`], in bytes.
pub struct Args<'a> {
    /// The operands.
    pub inputs: &'a [*const u8],
    /// The result; may be one of the operands where the contract allows it.
    pub output: *mut u8,
    /// Scratch of the size in the contract (dangling when that is zero).
    pub scratch: *mut u8,
    /// The threads.
    pub team: &'a Team,
}

/// The part of a plan that runs on a device: its memory, its machine code and its queues.
///
/// A run is begun, its segments are launched in order, and it is ended; the host's steps in between run after
/// those that they wait for.
pub trait Runner: Send {
    /// The host's part of the arena, which the device's copies read and write.
    fn arena(&mut self) -> *mut u8;

    /// Begins a run on inputs in the model's order.
    ///
    /// # Errors
    /// What went wrong with which step, and what to do; so for all that follow.
    fn begin(&mut self, inputs: &[&Tensor]) -> Result<(), String>;

    /// Queues a segment of the schedule.
    fn launch(&mut self, segment: usize) -> Result<(), String>;

    /// Waits for a segment and all before it.
    fn wait(&mut self, segment: usize) -> Result<(), String>;

    /// Waits for all that was queued: the host's part of the arena holds what was copied there.
    fn end(&mut self) -> Result<(), String>;

    /// Runs one step and waits for it.
    fn alone(&mut self, step: usize) -> Result<(), String>;
}

/// A plan that a device is to run a part of.
#[derive(Clone, Copy)]
pub struct Loading<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// The constants that it reads.
    pub constants: &'a FxHashMap<NodeId, Tensor>,
    /// Where machine code comes from.
    pub code: &'a dyn cuda::nvrtc::Source,
}

/// A set of kernels under one name.
pub trait Backend: Sync {
    /// The name: the prefix of its lowered ops.
    fn name(&self) -> &'static str;

    /// What the backend is made of, in one line; or why it is not there, and where it was looked for.
    ///
    /// # Errors
    /// That it is not there.
    fn found(&self) -> Result<String, String> {
        Ok("part of ovolo".to_owned())
    }

    /// What its kernels and their times depend on beside ovolo itself, in one line, wherever on the machine it
    /// lies.
    ///
    /// # Errors
    /// That it is not there.
    fn identity(&self) -> Result<String, String> {
        self.found()
    }

    /// The backend that runs plans on the device where its kernels run: itself, unless its kernels are a
    /// library's for the device of another.
    fn runs_with(&self) -> &'static str {
        self.name()
    }

    /// Whether plans for it can be made where it is not: contracts and prices do not ask for it.
    fn plans_elsewhere(&self) -> bool {
        false
    }

    /// What its kernels depend on beside what was found: names and values, in a fixed order.
    fn details(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The files that its kernels come from, beside this program: what is in them can change every answer.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The contract of the implementation for a call, or why there is none.
    fn contract(&self, call: &Call<'_>) -> Result<Contract, String>;

    /// Loads the steps of a plan that are on this backend's device; nothing where it has none of its own.
    ///
    /// # Errors
    /// What is missing or was refused, and what to do.
    fn runner(&self, _: &Loading<'_>) -> Option<Result<Box<dyn Runner>, String>> {
        None
    }

    /// Makes the kernel for a call whose contract was given; one of a device takes operands of the host, and
    /// gives its result there.
    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String>;
}

/// Every backend. A new one is a file and a line here.
pub const BACKENDS: &[&dyn Backend] =
    &[&native::Native, &onednn::OneDnn, &cuda::Cuda, &cuda::CublasLt, &cuda::CuDnn];

/// The backend with this name.
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    BACKENDS.iter().find(|backend| backend.name() == name).copied()
}

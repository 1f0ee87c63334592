//! Backends: who can run a lowered op, under which contract, and the kernels themselves.
//!
//! For given types a backend answers for each lowered op: supported or why not, the
//! implementation's name, and its contract with the memory planner. All of it is asked before
//! memory is planned, of exactly the implementation that was chosen.

pub mod features;

use crate::graph::NodeId;
use crate::op::Lowering;
pub use crate::op::{ALIGN, Args, Call, Contract, Kernel, OpError};
use crate::plan::Plan;
use crate::plan::schedule::Schedule;
use crate::scalar::Function;
use crate::table::{Table, Unknown};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The part of a plan that runs on a device: its memory, its machine code and its queues.
///
/// A run is begun, its segments are launched in order, and it is ended; the host's steps in between run after
/// those that they wait for. A run that was begun and not ended is given up by the next [`Runner::begin`].
///
/// # Safety
/// [`Runner::arena`] gives the same address each time, aligned to [`ALIGN`]. [`Plan::arena`] initialised bytes can
/// be read and written there as long as the runner lives. Except for what the plan's copies between host and
/// device read and write, from the launch of their segment until it has been waited for, the runner does not use
/// them.
pub unsafe trait Runner: Send {
    /// The host's part of the arena, which copies from and to the device read and write.
    fn arena(&mut self) -> *mut u8;

    /// Begins a run on inputs in the model's order. Inputs of other types than the plan's are refused.
    ///
    /// # Errors
    /// What went wrong with which step, and what to do; so for all that follow.
    fn begin(&mut self, inputs: &[&Tensor]) -> Result<(), BackendError>;

    /// Queues a segment of the schedule.
    fn launch(&mut self, segment: usize) -> Result<(), BackendError>;

    /// Waits for a segment and all before it.
    fn wait(&mut self, segment: usize) -> Result<(), BackendError>;

    /// Waits for all that was queued: the host's part of the arena holds what was copied there.
    fn end(&mut self) -> Result<(), BackendError>;

    /// Runs one step and waits for it.
    fn alone(&mut self, step: usize) -> Result<(), BackendError>;
}

/// Why a backend cannot run a plan, or is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// A library or a device is absent, or cannot be used.
    #[error("{0}")]
    Absent(String),
    /// The registry has no backend of this name.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// It cannot run such a plan.
    #[error("{0}")]
    Plan(String),
    /// A step of a plan cannot be loaded or run.
    #[error("`{step}` ({op}): {why}")]
    Step {
        /// The value that the step computes.
        step: String,
        /// Its op.
        op: String,
        /// What went wrong.
        why: String,
    },
    /// A library or a device reports an error, which concerns no step alone.
    #[error("{0}")]
    Device(String),
}

/// A plan that a device is to run a part of. Only a session makes one, and has checked it: every value lies within
/// the memory that the plan says, and every kernel gets the buffers that its contract asks for.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Loading<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// The constants that it reads.
    pub constants: &'a FxHashMap<NodeId, Tensor>,
    /// Where what is compiled for the device is kept.
    pub artifacts: &'a dyn Artifacts,
}

/// Where backends keep what they compile for a device, such as machine code: bytes under a key of texts, which are all
/// that the bytes depend on.
pub trait Artifacts {
    /// What was stored under a key; nothing where that is absent or damaged.
    fn load(&self, key: &[&str]) -> Option<Vec<u8>>;

    /// Stores bytes under a key, if that is possible.
    fn store(&self, key: &[&str], bytes: &[u8]);
}

/// Keeps no artifacts.
pub struct Unkept;

impl Artifacts for Unkept {
    fn load(&self, _: &[&str]) -> Option<Vec<u8>> {
        None
    }

    fn store(&self, _: &[&str], _: &[u8]) {}
}

/// A set of kernels under one name.
///
/// # Safety
/// Sessions run its kernels in memory that they lay out as its contracts say. So whatever the call:
/// - A kernel that a declaration of [`Backend::ops`] makes for a call is sound to run under the conditions of
///   [`Kernel::run`] with the contract that the same declaration gives for an equal call.
/// - Where a contract has [`Contract::view_of`], the result's bytes lie within that operand's from
///   [`Contract::view_offset`] on.
/// - A runner that [`Backend::runner`] makes is one for the plan that it was given.
pub unsafe trait Backend: Send + Sync {
    /// The name: the prefix of its lowered ops.
    fn name(&self) -> &'static str;

    /// What the backend is made of, in one line; or why it is not there, and where it was looked for.
    ///
    /// # Errors
    /// That it is not there.
    fn found(&self) -> Result<String, BackendError> {
        Ok("part of ovolo".to_owned())
    }

    /// What its kernels and their times depend on beside ovolo itself, in one line, wherever on the machine it
    /// lies.
    ///
    /// # Errors
    /// That it is not there.
    fn identity(&self) -> Result<String, BackendError> {
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

    /// Its lowered ops, whose names begin with its own and a dot.
    fn ops(&self) -> Vec<Lowering>;

    /// The lowered op of a function of one number, under the name that is given: the backend's, a dot, and the
    /// function's. `None` where the backend has none. It is asked for every function of a registry.
    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        let _ = (name, function);
        None
    }

    /// Loads the steps of a plan that are on this backend's device; nothing where it has none of its own.
    ///
    /// # Errors
    /// What is missing or was refused, and what to do.
    fn runner(&self, _: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        None
    }
}

/// Backends by name.
pub type Backends = Table<Arc<dyn Backend>>;

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

pub use crate::contract::{ALIGN, Call, Contract};
use crate::graph::NodeId;
use crate::plan::Plan;
use crate::plan::schedule::Schedule;
use crate::tensor::Tensor;
pub use ovolo_team as team;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use team::Team;

/// A kernel for fixed types, attributes and threads. Built once, run many times.
pub trait Kernel: Send + Sync {
    /// Computes the result. Does not allocate.
    ///
    /// A kernel may panic. Its result and scratch then hold any bytes, and it can be run again.
    ///
    /// # Safety
    /// A backend made this kernel for a [`Call`], and has given a [`Contract`] for the same call. The call is one
    /// that its op takes: the op's definition gives the result's type for the attributes and the operands' types.
    /// For the whole run:
    /// - `args.inputs` has one pointer for each operand of the call, in their order. Each is aligned to the
    ///   operand's element type, and as many initialised bytes as the operand's type has can be read there.
    ///   Nobody writes them meanwhile, except this kernel where an operand shares the result's buffer.
    /// - `args.output` is aligned to [`ALIGN`], and as many bytes as the result's type has can be read and
    ///   written there. Nobody else uses them meanwhile. They overlap no operand, with these exceptions: one
    ///   operand of [`Contract::in_place`], or the operand of [`Contract::alias`], may begin at the same
    ///   address; an operand that [`Contract::joins`] the result may lie at its place of [`Contract::parts`].
    ///   Where the contract has an alias, its bytes are in the result's buffer when the run begins.
    /// - `args.scratch` is aligned to [`ALIGN`], and [`Contract::scratch`] bytes can be read and written there.
    ///   Nobody else uses them meanwhile, and they overlap neither an operand nor the result. It may be any
    ///   pointer when the contract asks for no scratch, or when the call's result is on a device: such a kernel
    ///   takes its operands from the host's memory and leaves its result there, and has scratch of its own.
    /// - `args.team` has as many threads as the call says.
    ///
    /// The values of the bytes are free: a kernel reads no memory but its buffers, whatever they hold.
    unsafe fn run(&self, args: &Args<'_>);

    /// Seconds that the last run took on a device, without the copies to the device and back. `None` for
    /// kernels of the host, which are timed from outside.
    fn seconds(&self) -> Option<f64> {
        None
    }
}

/// The buffers of one step: what [`Kernel::run`] is given, and what it demands of them.
pub struct Args<'a> {
    /// The operands.
    pub inputs: &'a [*const u8],
    /// The result; it may be the buffer of an operand where the contract allows that.
    pub output: *mut u8,
    /// Scratch memory of the size in the contract; any pointer where that is zero.
    pub scratch: *mut u8,
    /// The threads.
    pub team: &'a Team,
}

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
    /// Where machine code comes from.
    pub code: &'a dyn cuda::nvrtc::Source,
}

/// A set of kernels under one name.
///
/// # Safety
/// Sessions run its kernels in memory that they lay out as its contracts say. So whatever the call:
/// - A kernel that [`Backend::kernel`] makes for a call is sound to run under the conditions of [`Kernel::run`] with
///   the contract that [`Backend::contract`] gives for an equal call.
/// - Where a contract has [`Contract::view_of`], the result's bytes lie within that operand's from
///   [`Contract::view_offset`] on.
/// - A runner that [`Backend::runner`] makes is one for the plan that it was given.
pub unsafe trait Backend: Sync {
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

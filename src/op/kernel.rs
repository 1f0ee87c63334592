//! Kernels: what is asked of one before memory is planned, what it answers, and how it is run.

use super::{Op, OpError};
use crate::attr::Attrs;
use crate::team::Team;
use crate::tensor::TensorType;

/// One lowered op with its types: what a kernel is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The lowered op.
    pub op: Op,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// The types of its operands.
    pub inputs: &'a [&'a TensorType],
    /// The type of its result.
    pub output: &'a TensorType,
    /// Threads that the plan will run with.
    pub threads: usize,
}

impl Call<'_> {
    /// The contract of the kernel.
    ///
    /// # Errors
    /// Why there is no kernel.
    pub fn contract(&self) -> Result<Contract, OpError> {
        let Some(lowered) = &self.op.lowered else { return Err(self.logical()) };
        let own = lowered.declaration.contract;
        lowered.declaration.fallback.map_or_else(|| own(self), |fallback| (fallback.contract)(self, own))
    }

    /// The kernel, whose contract was given. One of a device takes operands of the host, and gives its result
    /// there.
    ///
    /// # Errors
    /// Why there is no kernel.
    pub fn kernel(&self) -> Result<Box<dyn Kernel>, OpError> {
        let Some(lowered) = &self.op.lowered else { return Err(self.logical()) };
        let own = lowered.declaration.kernel;
        lowered.declaration.fallback.map_or_else(|| own(self), |fallback| (fallback.kernel)(self, own))
    }

    /// What the kernel decides for itself, if its backend says so; empty where there is no kernel.
    pub fn choices(&self) -> Vec<Choice> {
        self.op.lowered.as_ref().map_or_else(Vec::new, |lowered| (lowered.declaration.choices)(self))
    }

    fn logical(&self) -> OpError {
        OpError::Logical { op: self.op.name }
    }
}

/// Something that a kernel decides for itself, from the types, the threads and the processor alone: a variant of its
/// algorithm that has no price of its own, since the e-graph has one candidate for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is decided: `threads`, `right operand`, ….
    pub what: &'static str,
    /// What was taken.
    pub taken: String,
}

impl Choice {
    /// A choice and what was taken.
    pub fn new(what: &'static str, taken: impl Into<String>) -> Self {
        Self { what, taken: taken.into() }
    }
}

/// The name of the implementation that is an op's reference evaluation: it allocates, and runs on one thread.
pub const REFERENCE: &str = "reference";

/// How the name of an implementation begins that converts its operands and its result to another element type
/// inside, as it has no code for theirs.
pub const WIDENED: &str = "widened ";

/// Alignment of every buffer in bytes: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// What the chosen implementation promises and demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// The implementation's name: `direct-avx512`, `gemm`, ….
    pub implementation: String,
    /// Operands whose buffer the result may take, when nobody reads them later.
    pub in_place: Vec<usize>,
    /// The operand whose buffer the result must be.
    pub alias: Option<usize>,
    /// The result is this operand's bytes, unchanged: no code runs, no buffer is needed.
    pub view_of: Option<usize>,
    /// Where in that operand the result begins, in bytes.
    pub view_offset: usize,
    /// Where in the result each operand's bytes lie, where it is nothing but their bytes, each operand in
    /// one piece: what lies there already is left alone, so the plan may let operands be computed there.
    /// Empty for all other results.
    pub parts: Vec<usize>,
    /// Scratch bytes, 64-byte aligned, for the duration of the step.
    pub scratch: usize,
}

impl Contract {
    /// Whether an operand of so many bytes may be computed where it belongs in the result: buffers begin
    /// and end on the alignment.
    pub fn joins(&self, operand: usize, bytes: usize) -> bool {
        self.parts[operand].is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN)
    }
}

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

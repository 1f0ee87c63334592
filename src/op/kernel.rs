//! Kernels: the contract that each one states before memory is planned, and how it is run.

use super::{Op, OpError};
use crate::attr::Attrs;
use crate::team::Team;
use crate::tensor::TensorType;

/// A lowered op with its attributes and types, for which a kernel can be made.
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
    /// The number of threads that the plan will run with.
    pub threads: usize,
}

impl Call<'_> {
    /// Returns the contract of the kernel.
    ///
    /// # Errors
    /// Why there is no kernel; also a contract that no plan can keep.
    pub fn contract(&self) -> Result<Contract, OpError> {
        let Some(lowered) = &self.op.lowered else { return Err(self.logical()) };
        let own = lowered.declaration.contract;
        let stated = match lowered.declaration.fallback {
            Some(fallback) => (fallback.contract)(self, own)?,
            None => own(self)?,
        };
        match stated.mistake(self) {
            Some(why) => Err(OpError::Contract { op: self.op.name, why }),
            None => Ok(stated),
        }
    }

    /// Makes the kernel that [`Call::contract`] describes. A kernel of a device takes its operands from the host,
    /// and leaves its result there.
    ///
    /// # Errors
    /// Why there is no kernel.
    pub fn kernel(&self) -> Result<Box<dyn Kernel>, OpError> {
        let Some(lowered) = &self.op.lowered else { return Err(self.logical()) };
        let own = lowered.declaration.kernel;
        lowered.declaration.fallback.map_or_else(|| own(self), |fallback| (fallback.kernel)(self, own))
    }

    /// Returns what the kernel decides for itself, if its backend reports that; empty if there is no kernel.
    pub fn choices(&self) -> Vec<KernelChoice> {
        self.op.lowered.as_ref().map_or_else(Vec::new, |lowered| (lowered.declaration.choices)(self))
    }

    fn logical(&self) -> OpError {
        OpError::Logical { op: self.op.name }
    }
}

/// A variant of its algorithm that a kernel decides for itself, from the types, the threads and the processor
/// alone. It has no price of its own, since the e-graph has one candidate for all variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    /// What is decided, such as `threads` or `right operand`.
    pub what: &'static str,
    /// The variant that was chosen.
    pub taken: String,
}

impl KernelChoice {
    /// Makes a choice from what is decided and the variant that was chosen.
    pub fn new(what: &'static str, taken: impl Into<String>) -> Self {
        Self { what, taken: taken.into() }
    }
}

/// The name of the implementation that runs an op's reference evaluation, which allocates and runs on one thread.
pub const REFERENCE: &str = "reference";

/// The beginning of the names of implementations that have no code for the element type of their operands, so that
/// they convert operands and result inside the step.
pub const WIDENED: &str = "widened ";

/// Alignment of every buffer in bytes, which is the size of a cache line and of the widest vector.
pub const ALIGN: usize = 64;

/// What the chosen implementation needs and promises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// The implementation's name, such as `direct-avx512` or `gemm`.
    pub implementation: String,
    /// Operands whose buffer the result may take if nobody reads them later.
    pub in_place: Vec<usize>,
    /// The operand whose buffer the result must take.
    pub alias: Option<usize>,
    /// The operand whose bytes are the result, unchanged: no code runs, and no buffer is needed.
    pub view_of: Option<usize>,
    /// Where in that operand the result begins, in bytes.
    pub view_offset: usize,
    /// The offset in the result of each operand's bytes, for a result that consists of its operands' contiguous
    /// bytes. The kernel does not copy an operand that is already there, so the plan may compute operands in place.
    /// Empty for all other results.
    pub parts: Vec<usize>,
    /// Scratch memory for the duration of the step, in bytes, aligned to [`ALIGN`].
    pub scratch: usize,
}

impl Contract {
    /// Returns whether an operand of this many bytes may be computed at its place in the result. Both ends of that
    /// place must be aligned, as those of all buffers are.
    pub fn joins(&self, operand: usize, bytes: usize) -> bool {
        self.parts[operand].is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN)
    }

    /// Returns what makes it impossible to keep for a call, as the rest of a sentence.
    fn mistake(&self, call: &Call<'_>) -> Option<String> {
        let (count, whole) = (call.inputs.len(), call.output.bytes());
        let named = self.in_place.iter().chain(&self.alias).chain(&self.view_of);
        if let Some(operand) = named.copied().find(|operand| *operand >= count) {
            return Some(format!("names operand {operand} of a call with {count}"));
        }
        if let Some(viewed) = self.view_of {
            let (bytes, from) = (call.inputs[viewed].bytes(), self.view_offset);
            if from.checked_add(whole).is_none_or(|end| end > bytes) {
                return Some(format!(
                    "takes {whole} bytes from byte {from} of operand {viewed}, which has {bytes}"
                ));
            }
        }
        if !self.parts.is_empty() && self.parts.len() != count {
            return Some(format!("has {} parts for {count} operands", self.parts.len()));
        }
        let outside =
            |(part, ty): &(&usize, &&TensorType)| part.checked_add(ty.bytes()).is_none_or(|end| end > whole);
        let (part, ty) = self.parts.iter().zip(call.inputs).find(outside)?;
        Some(format!("places {} bytes at byte {part} of a result of {whole} bytes", ty.bytes()))
    }
}

/// A kernel for fixed types, attributes and threads. It is made once and run many times.
pub trait Kernel: Send + Sync {
    /// Computes the result. Does not allocate.
    ///
    /// A kernel may panic. Its result and scratch then hold any bytes, and it can be run again.
    ///
    /// # Safety
    /// A backend made this kernel for a [`Call`], and has given a [`Contract`] for the same call. The call is valid
    /// for its op: the op's definition infers the result's type from the attributes and the operands' types. For
    /// the whole run:
    /// - `args.inputs` has one pointer for each operand of the call, in their order. Each is aligned to the
    ///   operand's element type, and as many initialised bytes as the operand's type has can be read there. Nobody
    ///   writes them meanwhile, except this kernel if an operand shares the result's buffer.
    /// - `args.output` is aligned to [`ALIGN`], and as many bytes as the result's type has can be read and written
    ///   there. Nobody else uses them meanwhile. They overlap no operand, with these exceptions: one operand of
    ///   [`Contract::in_place`], or the operand of [`Contract::alias`], may begin at the same address; an operand
    ///   that [`Contract::joins`] the result may lie at its place of [`Contract::parts`]. If the contract has an
    ///   alias, its bytes are in the result's buffer when the run begins.
    /// - `args.scratch` is aligned to [`ALIGN`], and [`Contract::scratch`] bytes can be read and written there.
    ///   Nobody else uses them meanwhile, and they overlap neither an operand nor the result. It may be any
    ///   pointer when the contract asks for no scratch, or when the call's result is on a device: such a kernel
    ///   takes its operands from the host's memory and leaves its result there, and has scratch of its own.
    /// - `args.team` has as many threads as the call says.
    ///
    /// The bytes may have any values: whatever they are, a kernel accesses only its buffers.
    unsafe fn run(&self, args: &Args<'_>);

    /// Prepares a kernel of a device for runs whose time [`Kernel::seconds`] tells. `constant` says which operands are
    /// constants of a model, and `bytes` how large all constants of the model are. The device then finds these operands
    /// as in a plan: in its cache only if the model's constants fit there. Kernels of the host need nothing, because
    /// the caller places their operands.
    ///
    /// # Errors
    /// [`OpError::Memory`] if the device has not enough memory, or what else the device reports.
    fn prepare_timing(&self, _constant: &[bool], _bytes: usize) -> Result<(), OpError> {
        Ok(())
    }

    /// Returns the seconds that the last run took on a device, without the copies to the device and back. `None`
    /// for kernels of the host, which the caller times.
    fn seconds(&self) -> Option<f64> {
        None
    }
}

/// The buffers of one step, which [`Kernel::run`] takes. Its safety section says what must hold for them.
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

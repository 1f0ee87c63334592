//! The commands that a step queues: copies, kernels and library calls, with the addresses of their operands.

use super::calls::Status;
use super::driver::{Code, Stream};
use super::kernel::{Argument, KernelJob, Launch};
use cudarc::driver::sys::{CUdeviceptr, CUfunction};
use ovolo::backend::Artifacts;
use ovolo::op::ALIGN;
use ovolo::tensor::DType;
use std::ffi::c_void;

/// A command that a step queues.
pub(super) enum Command {
    Upload { to: CUdeviceptr, from: *const u8, bytes: usize },
    Download { to: *mut u8, from: CUdeviceptr, bytes: usize },
    Kernel { function: CUfunction, launch: Launch, parameters: Parameters },
    Library(Box<dyn Queued>),
}

/// A library call that is created once and queued many times.
pub(super) trait Queued {
    /// Queues the call.
    ///
    /// # Errors
    /// If the library reports an error; the message also says what the user can do.
    fn queue(&mut self, stream: &Stream) -> Result<(), String>;
}

/// What a library call is made with.
pub(super) struct Means<'a> {
    /// Keeps what a library compiles.
    pub artifacts: &'a dyn Artifacts,
    /// If present, another engine of the library may run than the one that a call requests, if that one does not run
    /// on the device. A note is added for each, which says so.
    pub instead: Option<&'a mut Vec<String>>,
}

/// The addresses on the device of a call's operands, its result and its scratch memory.
pub(super) struct Buffers {
    pub inputs: Vec<CUdeviceptr>,
    pub output: CUdeviceptr,
    pub scratch: CUdeviceptr,
    /// The size of the scratch memory in bytes.
    pub bytes: usize,
}

/// The alignment that libraries require for their scratch memory. The buffers of a plan have a smaller one.
const WORKSPACE_ALIGN: usize = 256;

/// Returns the scratch bytes that a plan must have so that a library gets `bytes` aligned bytes.
pub(super) fn workspace(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + WORKSPACE_ALIGN - ALIGN }
}

impl Buffers {
    /// Returns the aligned address of the library's scratch memory.
    pub fn workspace(&self) -> CUdeviceptr {
        self.scratch.next_multiple_of(WORKSPACE_ALIGN as u64)
    }

    /// Returns the number of scratch bytes that the library can use.
    pub fn workspace_bytes(&self) -> usize {
        self.bytes.saturating_sub(WORKSPACE_ALIGN - ALIGN)
    }
}

/// The values of a kernel's parameters, and pointers to them.
pub(super) struct Parameters {
    _values: Box<[CUdeviceptr]>,
    pointers: Box<[*mut c_void]>,
}

impl Parameters {
    fn new(values: Vec<CUdeviceptr>) -> Self {
        let mut values = values.into_boxed_slice();
        let pointers = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        Self { _values: values, pointers }
    }
}

/// A descriptor of a library, which is released with this value. If it owns resources of a device, as a plan of a
/// graph does, that device must be current at that time.
pub(super) struct Descriptor<T: Copy> {
    pub raw: T,
    /// The function that releases it.
    pub free: unsafe extern "C" fn(T) -> Status,
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: the library created the descriptor, and it is released once.
        let _ = unsafe { (self.free)(self.raw) };
    }
}

/// A factor in the type that libraries use for scaling: `f64` for `f64`, and `f32` for all other types.
#[derive(Clone, Copy)]
pub(super) union Scale {
    single: f32,
    double: f64,
}

impl Scale {
    pub fn new(dtype: DType, value: f32) -> Self {
        if dtype == DType::F64 { Self { double: f64::from(value) } } else { Self { single: value } }
    }
}

/// Returns the commands for the kernels of a job.
pub(super) fn kernels(job: &KernelJob, code: &Code, buffers: &Buffers) -> Result<Vec<Command>, String> {
    let kernel = |kernel: &super::KernelSource| {
        let values = kernel.arguments.iter().map(|argument| match argument {
            Argument::Input(operand) => buffers.inputs[*operand],
            Argument::Output => buffers.output,
            Argument::Scratch => buffers.scratch,
        });
        let parameters = Parameters::new(values.collect());
        Ok(Command::Kernel { function: code.function(&kernel.name)?, launch: kernel.launch, parameters })
    };
    job.kernels.iter().map(kernel).collect()
}

impl Command {
    /// Queues the command.
    ///
    /// # Safety
    /// The buffers for which the command was created must have the bytes of their types, and nothing else may use
    /// them until the stream has run the command.
    pub(crate) unsafe fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        // SAFETY: as the caller promises; the parameters are those of the kernel's job.
        unsafe {
            match self {
                Self::Upload { to, from, bytes } => stream.upload(*to, *from, *bytes),
                Self::Download { to, from, bytes } => stream.download(*to, *from, *bytes),
                Self::Kernel { function, launch, parameters } => {
                    stream.launch(*function, *launch, &mut parameters.pointers)
                }
                Self::Library(call) => call.queue(stream),
            }
        }
    }
}

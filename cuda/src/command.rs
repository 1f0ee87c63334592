//! What a step puts on a queue: copies, kernels, and calls of libraries, with the addresses of their operands.

use super::calls::Status;
use super::driver::{Code, Stream};
use super::kernel::{Argument, Job, Launch};
use cudarc::driver::sys::{CUdeviceptr, CUfunction};
use ovolo::op::ALIGN;
use ovolo::tensor::DType;
use std::ffi::c_void;

/// What a step queues.
pub(super) enum Command {
    Upload { to: CUdeviceptr, from: *const u8, bytes: usize },
    Download { to: *mut u8, from: CUdeviceptr, bytes: usize },
    Kernel { function: CUfunction, launch: Launch, parameters: Parameters },
    Library(Box<dyn Queued>),
}

/// A call of a library, made once and queued often.
pub(super) trait Queued {
    /// Queues it.
    ///
    /// # Errors
    /// What the library said, and what to do.
    fn queue(&mut self, stream: &Stream) -> Result<(), String>;
}

/// Where the operands of a call are on the device, its result, and its scratch.
pub(super) struct Buffers {
    pub inputs: Vec<CUdeviceptr>,
    pub output: CUdeviceptr,
    pub scratch: CUdeviceptr,
    /// Bytes of the scratch.
    pub bytes: usize,
}

/// Where libraries want their scratch to begin; buffers of a plan begin on less.
const WORKSPACE_ALIGN: usize = 256;

/// Bytes of a plan's scratch in which a library has so many, wherever it begins.
pub(super) fn workspace(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + WORKSPACE_ALIGN - ALIGN }
}

impl Buffers {
    /// Where a library's scratch begins.
    pub fn workspace(&self) -> CUdeviceptr {
        self.scratch.next_multiple_of(WORKSPACE_ALIGN as u64)
    }

    /// Bytes that a library has there.
    pub fn room(&self) -> usize {
        self.bytes.saturating_sub(WORKSPACE_ALIGN - ALIGN)
    }
}

/// The values of a kernel's parameters, and where they are.
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

/// A descriptor of a library that goes with this value; where it holds something of
/// the device, as a plan of a graph does, the device must be the current one when it is given back.
pub(super) struct Descriptor<T: Copy> {
    pub raw: T,
    /// What gives it back.
    pub free: unsafe extern "C" fn(T) -> Status,
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody else gives it back.
        let _ = unsafe { (self.free)(self.raw) };
    }
}

/// A factor in the type that libraries scale by: `f64` for that type, and `f32` for all others.
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

/// The kernels of a job.
pub(super) fn kernels(job: &Job, code: &Code, buffers: &Buffers) -> Result<Vec<Command>, String> {
    let kernel = |kernel: &super::Kernel| {
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
    /// Queues it.
    ///
    /// # Safety
    /// The places that it was made with hold the bytes of their types, and nothing else touches them before the
    /// stream is done with it.
    pub unsafe fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        // SAFETY: the caller's promise; the parameters are those of the kernel's job.
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

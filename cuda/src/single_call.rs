//! A single call on a device, for tuning. The operands are copied from the host and the result is copied back, but
//! neither copy is timed.
//!
//! The call is queued several times in a row, and the queue is captured and replayed as a whole, as plans do. So the
//! measured time is that of the device, without the time that the host needs to start a kernel. Operands that a plan
//! computes are read from the device's cache if they fit there, as in a plan. Constants are too, unless those of the
//! whole model do not fit ([`cold`]).

mod cold;

use super::command::{self, Buffers, Command, Means};
use super::driver::{self, Code, Context, Memory, Pinned, Replay, Stream};
use super::handles::library;
use super::kernel::KernelJob;
use super::module::Module;
use super::nvrtc;
use super::transfer::copies;
use cold::Cold;
use cudarc::driver::sys::CUdeviceptr;
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Kernel, Unkept};
use ovolo::op::{Call, Contract, Op, OpError};
use ovolo::tensor::{Device, TensorType};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How often the call is queued for one measurement.
const REPETITIONS: usize = 32;
/// The alignment of buffers, in bytes.
const ALIGN: usize = 256;

/// A call that is loaded on the device.
pub(super) struct SingleCall(Mutex<State>);

// SAFETY: as for a loaded plan, the handles may be used by any thread; the pointers point to memory that it owns.
unsafe impl Send for State {}

/// The state of a loaded call. The order of the fields is the order in which they are released.
struct State {
    replay: Option<Replay>,
    /// The commands of the call, and one list more for each further copy of its constants.
    commands: Vec<Vec<Command>>,
    stream: Stream,
    generated: Option<(KernelJob, Code)>,
    cold: Option<Cold>,
    memory: Memory,
    pinned: Pinned,
    call: Owned,
    operands: Vec<Region>,
    output: Region,
    /// The offset of the scratch memory, and its bytes.
    scratch: (usize, usize),
    seconds: Option<f64>,
    context: &'static Context,
}

/// What a call consists of.
struct Owned {
    op: Op,
    attrs: Attrs,
    inputs: Vec<TensorType>,
    output: TensorType,
    threads: usize,
}

/// The bytes of a value, in the memory of the device or in host memory that the device reads.
#[derive(Clone, Copy)]
struct Region {
    device: Device,
    offset: usize,
    bytes: usize,
}

impl Region {
    fn is_on_host(self) -> bool {
        self.device == Device::Host
    }
}

impl SingleCall {
    /// Loads a call on the device.
    ///
    /// # Errors
    /// [`OpError::Memory`] if the device has not enough memory; else if there is no device, or if the driver, the
    /// compiler or the library reports an error.
    pub(crate) fn new(call: &Call<'_>, contract: &Contract) -> Result<Self, OpError> {
        driver::opened().map_err(|why| {
            OpError::backend(format!("it takes a device of NVIDIA, and none was found: {why}"))
        })?;
        let context = Context::shared().map_err(OpError::backend)?;
        let mut ends = [0, 0];
        let mut take = |ty: &TensorType| {
            let end = &mut ends[usize::from(ty.device == Device::Host)];
            let region = Region { device: ty.device, offset: *end, bytes: ty.bytes() };
            *end += region.bytes.next_multiple_of(ALIGN);
            region
        };
        let operands: Vec<Region> = call.inputs.iter().map(|ty| take(ty)).collect();
        let output = take(call.output);
        let scratch = (ends[0], contract.scratch);
        let memory = Memory::new(context, scratch.0 + scratch.1)?;
        // Pinned memory holds the values that the device accesses in host memory, and then a copy of the result.
        let pinned = Pinned::new(context, ends[1] + output.bytes)?;
        let generated = if output.bytes > 0 && call.op.name.starts_with("cuda.") && !copies(call.op.name) {
            let job = super::job(call)?;
            let architecture = context.architecture().map_err(OpError::backend)?;
            let source = Module::new([&job]).source();
            let made = nvrtc::compiler()
                .map_err(Clone::clone)
                .and_then(|found| found.compile(&source, architecture));
            let code = Code::new(context, &made.map_err(OpError::backend)?.code)?;
            Some((job, code))
        } else {
            None
        };
        let owned = Owned {
            op: call.op,
            attrs: call.attrs.clone(),
            inputs: call.inputs.iter().copied().cloned().collect(),
            output: call.output.clone(),
            threads: call.threads,
        };
        let stream = Stream::new(context).map_err(OpError::backend)?;
        let mut state = State {
            replay: None,
            commands: Vec::new(),
            stream,
            generated,
            cold: None,
            memory,
            pinned,
            call: owned,
            operands,
            output,
            scratch,
            seconds: None,
            context,
        };
        let places = state.operands.iter().map(|operand| state.memory.at(operand.offset)).collect();
        let first = state.commands(places).map_err(refused)?;
        state.commands.push(first);
        // The call runs once here, so that errors are reported now: a later run cannot report them.
        state.queue(0).and_then(|()| state.stream.synchronize()).map_err(refused)?;
        Ok(Self(Mutex::new(state)))
    }
}

/// Returns the error of a library or a run. A lack of memory is told by the name of the status.
fn refused(why: String) -> OpError {
    let names = ["OUT_OF_MEMORY", "ALLOC_FAILED", "ALLOCATION_FAILED"];
    if names.iter().any(|name| why.contains(name)) { OpError::memory(why) } else { OpError::backend(why) }
}

impl State {
    /// Returns the commands of the call on operands at these addresses of the device.
    fn commands(&self, inputs: Vec<CUdeviceptr>) -> Result<Vec<Command>, String> {
        let Self { call, output, .. } = self;
        let bytes = output.bytes;
        if bytes == 0 {
            return Ok(Vec::new());
        }
        if copies(call.op.name) {
            let from = self.operands[0];
            return Ok(vec![if output.is_on_host() {
                Command::Download { to: self.host(*output), from: inputs[0], bytes }
            } else {
                Command::Upload { to: self.memory.at(output.offset), from: self.host(from), bytes }
            }]);
        }
        let buffers = Buffers {
            inputs,
            output: self.memory.at(output.offset),
            scratch: self.memory.at(self.scratch.0),
            bytes: self.scratch.1,
        };
        if let Some((job, code)) = &self.generated {
            return command::kernels(job, code, &buffers);
        }
        let inputs: Vec<&TensorType> = call.inputs.iter().collect();
        let Owned { op, attrs, output, threads, .. } = call;
        let call = Call { op: *op, attrs, inputs: &inputs, output, threads: *threads };
        // A candidate is timed itself, and no other one instead of it.
        Ok(vec![library(&call, &buffers, &mut Means { artifacts: &Unkept, instead: None })?])
    }

    /// Queues the call on one copy of its constants.
    fn queue(&mut self, copy: usize) -> Result<(), String> {
        // SAFETY: the memory has room for the types of the call, and only this value uses it.
        self.commands[copy].iter_mut().try_for_each(|command| unsafe { command.queue(&self.stream) })
    }

    /// Copies the constants of the call so often that the device's cache does not hold them from one repetition to the
    /// next, unless all constants of the model, which are `bytes`, fit there.
    fn prepare_timing(&mut self, constant: &[bool], bytes: usize) -> Result<(), OpError> {
        self.context.enter().map_err(OpError::backend)?;
        let constants: Vec<usize> = (0..self.operands.len())
            .filter(|at| constant.get(*at) == Some(&true) && !self.operands[*at].is_on_host())
            .collect();
        let regions: Vec<Region> = constants.iter().map(|at| self.operands[*at]).collect();
        self.cold = Cold::new(self.context, &regions, bytes)?;
        self.replay = None;
        self.commands.truncate(1);
        let Some(cold) = &self.cold else { return Ok(()) };
        let mut more = Vec::new();
        for copy in 0..cold.copies() {
            let mut places: Vec<CUdeviceptr> =
                self.operands.iter().map(|operand| self.memory.at(operand.offset)).collect();
            for (at, operand) in constants.iter().enumerate() {
                places[*operand] = cold.place(copy, at);
            }
            more.push(self.commands(places).map_err(refused)?);
        }
        self.commands.extend(more);
        Ok(())
    }

    /// Returns the address of a region in host memory.
    fn host(&self, region: Region) -> *mut u8 {
        self.pinned.pointer().wrapping_add(region.offset)
    }

    fn write(&self, region: Region, bytes: &[u8]) -> Result<(), String> {
        if !region.is_on_host() {
            return self.memory.write([(region.offset, bytes)]);
        }
        // SAFETY: the region has this number of bytes, and nothing is queued.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.host(region), bytes.len()) };
        Ok(())
    }

    /// Runs the call on the caller's buffers and measures its time.
    #[allow(clippy::cast_precision_loss)]
    fn run(&mut self, args: &Args<'_>) -> Result<(), String> {
        self.context.enter()?;
        // SAFETY: the buffers of a call have the bytes of their types.
        let given = |pointer: *const u8, bytes| unsafe { std::slice::from_raw_parts(pointer, bytes) };
        for (region, pointer) in self.operands.iter().zip(args.inputs) {
            self.write(*region, given(*pointer, region.bytes))?;
        }
        // The result is copied too, because a kernel may leave bytes unwritten, and these must keep their values.
        self.write(self.output, given(args.output, self.output.bytes))?;
        if self.replay.is_none() {
            self.stream.begin()?;
            let copies = self.commands.len();
            let queued = (0..REPETITIONS).try_for_each(|number| self.queue(number % copies));
            let kept = self.stream.end();
            queued?;
            self.replay = Some(kept?);
        }
        if let Some(cold) = &self.cold {
            cold.fill(&self.stream, &self.memory)?;
            self.stream.synchronize()?;
        }
        let start = Instant::now();
        if let Some(replay) = &self.replay {
            self.stream.replay(replay)?;
        }
        self.stream.synchronize()?;
        self.seconds = Some(start.elapsed().as_secs_f64() / REPETITIONS as f64);
        let bytes = self.output.bytes;
        let from = if self.output.is_on_host() {
            self.host(self.output)
        } else {
            let back = self.host(Region { offset: self.result_offset(), ..self.output });
            if bytes > 0 {
                // SAFETY: both have the bytes of the result, and the stream is synchronised afterwards.
                unsafe { self.stream.download(back, self.memory.at(self.output.offset), bytes) }?;
                self.stream.synchronize()?;
            }
            back
        };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from, args.output, bytes) };
        Ok(())
    }

    /// Returns the offset of the copy of the result in pinned memory, after the values that the device accesses
    /// there.
    fn result_offset(&self) -> usize {
        let host = self.operands.iter().chain([&self.output]).filter(|region| region.is_on_host());
        host.map(|region| region.offset + region.bytes.next_multiple_of(ALIGN)).max().unwrap_or(0)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Queued work may still use the resources that are released now.
        let _ = self.context.enter().and_then(|()| self.stream.synchronize());
    }
}

impl Kernel for SingleCall {
    unsafe fn run(&self, args: &Args<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = state.run(args) {
            panic!("a call that has already run on the device fails now: {why}");
        }
    }

    fn prepare_timing(&self, constant: &[bool], bytes: usize) -> Result<(), OpError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).prepare_timing(constant, bytes)
    }

    fn seconds(&self) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seconds
    }
}

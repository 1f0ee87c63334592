//! A single call on a device, for tuning. The operands are copied from the host and the result is copied back, but
//! neither copy is timed.
//!
//! The call is queued several times in a row, and the queue is captured and replayed as a whole, as plans do. So the
//! measured time is that of the device, without the time that the host needs to start a kernel. From the second time
//! on, operands that fit into the device's cache are read from there.

use super::command::{self, Buffers, Command};
use super::driver::{self, Code, Context, Memory, Pinned, Replay, Stream};
use super::handles::Libraries;
use super::module::Module;
use super::nvrtc;
use super::transfer::copies;
use ovolo::backend::{Args, Kernel};
use ovolo::op::{Call, Contract};
use ovolo::tensor::{Device, TensorType};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How often the call is queued for one measurement.
const REPETITIONS: u32 = 32;
/// The alignment of buffers, in bytes.
const ALIGN: usize = 256;

/// A call that is loaded on the device.
pub(super) struct SingleCall(Mutex<State>);

// SAFETY: as for a loaded plan, everything that shares the context moves together with this value.
unsafe impl Send for State {}

/// The state of a loaded call. The order of the fields is the order in which they are released.
struct State {
    replay: Option<Replay>,
    commands: Vec<Command>,
    stream: Stream,
    _code: Option<Code>,
    memory: Memory,
    pinned: Pinned,
    operands: Vec<Region>,
    output: Region,
    seconds: Option<f64>,
    context: Rc<Context>,
}

/// The bytes of a value, in the memory of the device or in host memory that the device reads.
#[derive(Clone, Copy)]
struct Region {
    device: Device,
    offset: usize,
    bytes: usize,
}

impl SingleCall {
    /// Loads a call on the device.
    ///
    /// # Errors
    /// If there is no device, or if the driver, the compiler or the library reports an error.
    pub(crate) fn new(call: &Call<'_>, contract: &Contract) -> Result<Self, String> {
        driver::opened().map_err(|why| format!("it takes a device of NVIDIA, and none was found: {why}"))?;
        let context = Context::new()?;
        let mut ends = [0, 0];
        let mut take = |ty: &TensorType| {
            let end = &mut ends[usize::from(ty.device == Device::Host)];
            let region = Region { device: ty.device, offset: *end, bytes: ty.bytes() };
            *end += region.bytes.next_multiple_of(ALIGN);
            region
        };
        let operands: Vec<Region> = call.inputs.iter().map(|ty| take(ty)).collect();
        let output = take(call.output);
        let scratch = ends[0];
        let memory = Memory::new(&context, scratch + contract.scratch)?;
        // Pinned memory holds the values that the device accesses in host memory, and then a copy of the result.
        let pinned = Pinned::new(&context, ends[1] + output.bytes)?;
        let mut code = None;
        let commands = if output.bytes == 0 {
            Vec::new()
        } else if copies(call.op.name) {
            let bytes = output.bytes;
            let (from, to) = (operands[0], output);
            vec![if to.device == Device::Host {
                Command::Download {
                    to: pinned.pointer().wrapping_add(to.offset),
                    from: memory.at(from.offset),
                    bytes,
                }
            } else {
                Command::Upload {
                    to: memory.at(to.offset),
                    from: pinned.pointer().wrapping_add(from.offset),
                    bytes,
                }
            }]
        } else {
            let buffers = Buffers {
                inputs: operands.iter().map(|operand| memory.at(operand.offset)).collect(),
                output: memory.at(output.offset),
                scratch: memory.at(scratch),
                bytes: contract.scratch,
            };
            if call.op.name.starts_with("cuda.") {
                let job = super::job(call).map_err(|why| why.to_string())?;
                let module = Module::new([&job]);
                let made = {
                    let architecture = context.architecture()?;
                    let made = nvrtc::found().and_then(|found| found.compile(&module.source(), architecture));
                    made.map_err(|why| why.to_string())?
                };
                let code = code.insert(Code::new(&context, &made.code)?);
                command::kernels(&job, code, &buffers)?
            } else {
                vec![Libraries::new(&context).command(call, &buffers)?]
            }
        };
        let stream = Stream::new(&context)?;
        let mut state = State {
            replay: None,
            commands,
            stream,
            _code: code,
            memory,
            pinned,
            operands,
            output,
            seconds: None,
            context,
        };
        // The call runs once here, so that errors are reported now: a later run cannot report them.
        state.queue().and_then(|()| state.stream.synchronize())?;
        Ok(Self(Mutex::new(state)))
    }
}

impl State {
    fn queue(&mut self) -> Result<(), String> {
        // SAFETY: the memory has room for the types of the call, and only this value uses it.
        self.commands.iter_mut().try_for_each(|command| unsafe { command.queue(&self.stream) })
    }

    /// Returns the address of a region in host memory.
    fn host(&self, region: Region) -> *mut u8 {
        self.pinned.pointer().wrapping_add(region.offset)
    }

    fn write(&self, region: Region, bytes: &[u8]) -> Result<(), String> {
        if region.device != Device::Host {
            return if bytes.is_empty() { Ok(()) } else { self.memory.write(region.offset, bytes) };
        }
        // SAFETY: the region has this number of bytes, and nothing is queued.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.host(region), bytes.len()) };
        Ok(())
    }

    /// Runs the call once on the caller's buffers and measures its time.
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
            let queued = (0..REPETITIONS).try_for_each(|_| self.queue());
            let kept = self.stream.end();
            queued?;
            self.replay = Some(kept?);
        }
        let start = Instant::now();
        if let Some(replay) = &self.replay {
            self.stream.replay(replay)?;
        }
        self.stream.synchronize()?;
        self.seconds = Some(start.elapsed().as_secs_f64() / f64::from(REPETITIONS));
        let bytes = self.output.bytes;
        let from = if self.output.device == Device::Host {
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
        let host = self.operands.iter().chain([&self.output]).filter(|region| region.device == Device::Host);
        host.map(|region| region.offset + region.bytes.next_multiple_of(ALIGN)).max().unwrap_or(0)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Queued work may still use the resources that are released now.
        let _ = self.context.enter().and_then(|()| self.context.synchronize());
    }
}

impl Kernel for SingleCall {
    unsafe fn run(&self, args: &Args<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = state.run(args) {
            panic!("a call that has already run on the device fails now: {why}");
        }
    }

    fn seconds(&self) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seconds
    }
}

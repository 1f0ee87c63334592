//! A call on a device by itself, for tuning: its operands come from the host, its result goes back there, and what
//! is timed is neither.
//!
//! It is queued so many times one after another, and that is kept and replayed as one, as plans run: so what is
//! measured is the device's time, and not the host's to start a kernel. Operands that fit into the device's cache
//! are there from the second time on.

use super::command::{self, Buffers, Command, Libraries};
use super::driver::{Code, Context, Memory, Pinned, Replay, Stream};
use super::library;
use super::module::Module;
use super::nvrtc;
use ovolo::backend::{Args, Kernel};
use ovolo::op::{Call, Contract};
use ovolo::tensor::{Device, TensorType};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How often the call is queued for a time.
const TIMES: u32 = 32;
/// Where buffers begin.
const ALIGN: usize = 256;

/// A call that is loaded.
pub(super) struct Alone(Mutex<State>);

// SAFETY: as of a plan that is loaded: all that shares the context moves with this value.
unsafe impl Send for State {}

/// What it holds is given back in the order of the fields.
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

/// The bytes of a value, in the memory of the device or in that of the host which it reads.
#[derive(Clone, Copy)]
struct Region {
    device: Device,
    offset: usize,
    bytes: usize,
}

impl Alone {
    /// Loads a call.
    ///
    /// # Errors
    /// That there is no device, or what the driver, the compiler or the library said.
    pub fn new(call: &Call<'_>, contract: &Contract) -> Result<Self, String> {
        library::driver().map_err(|why| format!("it takes a device of NVIDIA, and none was found: {why}"))?;
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
        // What the device reads and writes of the host's, then room for one value on its way back.
        let pinned = Pinned::new(&context, ends[1] + output.bytes)?;
        let mut code = None;
        let commands = if output.bytes == 0 {
            Vec::new()
        } else if library::copies(call.op.name) {
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
        // What is refused when it runs is refused here: running tells nobody.
        state.queue().and_then(|()| state.stream.synchronize())?;
        Ok(Self(Mutex::new(state)))
    }
}

impl State {
    fn queue(&mut self) -> Result<(), String> {
        // SAFETY: the memory was laid out for the types of the call, and only this value knows it.
        self.commands.iter_mut().try_for_each(|command| unsafe { command.queue(&self.stream) })
    }

    /// The host's side of a region.
    fn host(&self, region: Region) -> *mut u8 {
        self.pinned.pointer().wrapping_add(region.offset)
    }

    fn write(&self, region: Region, bytes: &[u8]) -> Result<(), String> {
        if region.device != Device::Host {
            return if bytes.is_empty() { Ok(()) } else { self.memory.write(region.offset, bytes) };
        }
        // SAFETY: the region has these bytes, and nothing is queued.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.host(region), bytes.len()) };
        Ok(())
    }

    /// One run with what the caller gives, and its time.
    fn run(&mut self, args: &Args<'_>) -> Result<(), String> {
        self.context.enter()?;
        // SAFETY: buffers of a call have the bytes of their types.
        let given = |pointer: *const u8, bytes| unsafe { std::slice::from_raw_parts(pointer, bytes) };
        for (region, pointer) in self.operands.iter().zip(args.inputs) {
            self.write(*region, given(*pointer, region.bytes))?;
        }
        // What is not written stays what it was.
        self.write(self.output, given(args.output, self.output.bytes))?;
        if self.replay.is_none() {
            self.stream.begin()?;
            let queued = (0..TIMES).try_for_each(|_| self.queue());
            let kept = self.stream.end();
            queued?;
            self.replay = Some(kept?);
        }
        let start = Instant::now();
        if let Some(replay) = &self.replay {
            self.stream.replay(replay)?;
        }
        self.stream.synchronize()?;
        self.seconds = Some(start.elapsed().as_secs_f64() / f64::from(TIMES));
        let bytes = self.output.bytes;
        let from = if self.output.device == Device::Host {
            self.host(self.output)
        } else {
            let back = self.host(Region { offset: self.back(), ..self.output });
            if bytes > 0 {
                // SAFETY: both have the bytes of the result, and the stream is waited for.
                unsafe { self.stream.download(back, self.memory.at(self.output.offset), bytes) }?;
                self.stream.synchronize()?;
            }
            back
        };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from, args.output, bytes) };
        Ok(())
    }

    /// Where a result lies on its way back: behind what the device reads of the host's.
    fn back(&self) -> usize {
        let host = self.operands.iter().chain([&self.output]).filter(|region| region.device == Device::Host);
        host.map(|region| region.offset + region.bytes.next_multiple_of(ALIGN)).max().unwrap_or(0)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // What is queued may still use what is given back now.
        let _ = self.context.enter().and_then(|()| self.context.synchronize());
    }
}

impl Kernel for Alone {
    unsafe fn run(&self, args: &Args<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = state.run(args) {
            panic!("a call that was made for the device, and ran there, does not run again: {why}");
        }
    }

    fn seconds(&self) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seconds
    }
}

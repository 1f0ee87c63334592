//! Plans on a device: memory, machine code and queues are created once when a plan is loaded, and a run creates
//! nothing.
//!
//! All values of a plan on the device are in one allocation, which the planner has laid out, and the constants are in
//! another. The host's part of the arena, and copies of the inputs that the device reads, are in pinned memory, so
//! that copies on their own streams run in parallel with other work. The first run queues each step. The second run
//! captures each segment of the queue and replays it, and all later runs replay the captures.

use super::command::{self, Buffers, Command, Means};
use super::device::FAMILY;
use super::driver::{Code, Context, Event, Memory, Pinned, Replay, Stream};
use super::handles::library;
use super::kernel::KernelJob;
use super::module::Module;
use super::transfer::copies;
use super::{job, nvrtc};
use cudarc::driver::sys::CUdeviceptr;
use ovolo::backend::{BackendError, Loading, Runner};
use ovolo::graph::NodeId;
use ovolo::op::Call;
use ovolo::plan::schedule;
use ovolo::plan::{Base, Place, Plan, Step};
use ovolo::tensor::{Device, Tensor, TensorType};
use rustc_hash::FxHashMap;

/// The alignment of constants in their memory, in bytes: that of the widest access.
const ALIGN: usize = 256;
/// The device.
const DEVICE: Device = Device::Accelerator(FAMILY, 0);

/// A loaded plan. The order of the fields is the order in which they are released.
pub(super) struct Runtime {
    /// For each segment its capture, once it exists.
    replays: Vec<Option<Replay>>,
    /// The commands of each step.
    commands: Vec<Vec<Command>>,
    segments: Vec<Segment>,
    streams: Vec<Stream>,
    /// Events on the streams: on the first when other streams start beside it, and on the others when they have
    /// finished.
    marks: Vec<Event>,
    _code: Option<Code>,
    _memory: Memory,
    _constants: Memory,
    pinned: Pinned,
    /// The inputs that the device reads.
    staged: Vec<Staged>,
    /// The inputs that lie on the device, by their positions in the model.
    _resident: Vec<Option<Memory>>,
    /// The inputs and outputs that lie on the device.
    ports: Vec<Port>,
    /// Pinned memory for a copy of the largest of them.
    transfer: Pinned,
    /// The names of the steps, for error messages.
    names: Vec<String>,
    /// What is different from the plan: other engines of libraries that run.
    notes: Vec<String>,
    context: &'static Context,
    /// The number of completed runs.
    runs: usize,
    /// Whether a run has started and not yet completed.
    open: bool,
}

// SAFETY: each thread enters the context before it uses the handles, and everything that shares the context moves
// together with this value; the pointers point to memory that it owns.
unsafe impl Send for Runtime {}

/// An input that the device reads from a copy in pinned memory.
struct Staged {
    input: usize,
    /// The offset of the copy in the pinned memory.
    offset: usize,
    bytes: usize,
}

/// An input or an output that lies on the device.
struct Port {
    place: Place,
    address: CUdeviceptr,
    bytes: usize,
}

/// Steps that are queued together.
struct Segment {
    launches: Vec<schedule::DeviceStep>,
    /// For each launch, the event that other streams wait for.
    marks: Vec<Option<Event>>,
    /// The number of streams that the segment uses.
    streams: usize,
    /// Marks the end of the segment.
    end: Event,
}

impl Runtime {
    /// Loads a plan: allocates the memory, copies the constants and loads the machine code.
    ///
    /// # Errors
    /// If something is absent, or if a call of the driver reports an error; the message also says what the user can
    /// do.
    pub(crate) fn new(loading: &Loading<'_>) -> Result<Self, String> {
        let Loading { plan, schedule, constants, artifacts, .. } = *loading;
        let jobs = jobs(plan)?;
        let context = Context::shared()?;
        let module = Module::new(jobs.iter().flatten());
        let code = if module.kernels().len() == 0 {
            None
        } else {
            let architecture = context.architecture()?;
            let made = nvrtc::compiler()
                .map_err(Clone::clone)
                .and_then(|compiler| nvrtc::machine_code(artifacts, compiler, &module.source(), architecture))
                .map_err(|why| why.to_string())?;
            Some(Code::new(context, &made.cubin.code)?)
        };
        let memory = Memory::new(context, plan.arena_of(DEVICE))?;
        let (offsets, bytes) = layout(plan, constants)?;
        let fixed = Memory::new(context, bytes)?;
        fixed.write(offsets.iter().map(|(node, offset)| (*offset, constants[node].bytes())))?;
        let there =
            |(_, ty): &(_, TensorType)| (ty.device == DEVICE).then(|| Memory::new(context, ty.bytes()));
        let resident: Vec<Option<Memory>> =
            plan.inputs.iter().map(|input| there(input).transpose()).collect::<Result<_, _>>()?;
        let (staged, bytes) = staging(plan);
        let pinned = Pinned::new(context, bytes)?;
        let places = Places {
            memory: &memory,
            constants: &fixed,
            offsets: &offsets,
            pinned: &pinned,
            staged: &staged,
            resident: &resident,
            threads: plan.threads,
        };
        let ports = places.ports(plan)?;
        let transfer = Pinned::new(context, ports.iter().map(|port| port.bytes).max().unwrap_or(0))?;
        let named = |step: &Step, why: &str| format!("`{}` ({}): {why}", step.name, step.op);
        let (mut commands, mut notes) = (Vec::with_capacity(jobs.len()), Vec::new());
        for (step, job) in plan.steps.iter().zip(&jobs) {
            let mut instead = Vec::new();
            let mut means = Means { artifacts, instead: Some(&mut instead) };
            let queued = places.commands(step, job.as_ref(), code.as_ref(), &mut means);
            commands.push(queued.map_err(|why| named(step, &why))?);
            notes.extend(instead.iter().map(|note| named(step, note)));
        }
        let segments =
            schedule.segments.iter().map(|one| Segment::new(context, one)).collect::<Result<Vec<_>, _>>()?;
        let most = segments.iter().map(|segment| segment.streams).max().unwrap_or(1);
        let streams = (0..most).map(|_| Stream::new(context)).collect::<Result<_, _>>()?;
        let marks = (0..most).map(|_| Event::new(context)).collect::<Result<_, _>>()?;
        let names = plan.steps.iter().map(|step| format!("`{}` ({})", step.name, step.op)).collect();
        let replays = segments.iter().map(|_| None).collect();
        Ok(Self {
            replays,
            commands,
            segments,
            streams,
            marks,
            _code: code,
            _memory: memory,
            _constants: fixed,
            pinned,
            staged,
            _resident: resident,
            ports,
            transfer,
            names,
            notes,
            context,
            runs: 0,
            open: false,
        })
    }

    /// Queues the steps of a segment. The other streams start after an event of the first, which finally waits for
    /// theirs.
    fn queue(&mut self, segment: usize) -> Result<(), String> {
        let Self { segments, streams, marks, commands, names, .. } = self;
        let segment = &segments[segment];
        let (first, others) = streams[..segment.streams].split_first().ok_or("there is no stream")?;
        if !others.is_empty() {
            marks[0].record(first)?;
            others.iter().try_for_each(|other| other.wait(&marks[0]))?;
        }
        for (launch, mark) in segment.launches.iter().zip(&segment.marks) {
            let stream = &streams[launch.stream];
            let queued = launch
                .after
                .iter()
                .filter_map(|before| segment.marks[*before].as_ref())
                .try_for_each(|mark| stream.wait(mark))
                .and_then(|()| commands[launch.step].iter_mut().try_for_each(|one| queue(one, stream)))
                .and_then(|()| mark.as_ref().map_or(Ok(()), |mark| mark.record(stream)));
            queued.map_err(|why| format!("{}: {why}", names[launch.step]))?;
        }
        for (other, mark) in others.iter().zip(&marks[1..]) {
            mark.record(other)?;
            first.wait(mark)?;
        }
        Ok(())
    }

    /// Returns the address of an input or an output on the device, for a copy of all its bytes.
    fn port(&self, place: Place, bytes: usize) -> Result<CUdeviceptr, BackendError> {
        let port = self.ports.iter().find(|port| port.place == place && port.bytes == bytes);
        port.map(|port| port.address)
            .ok_or_else(|| BackendError::NoPort { port: format!("input or output of {bytes} bytes"), place })
    }

    /// Queues a copy between pinned memory and the device, and waits for it.
    fn copy(&self, queue: impl FnOnce(&Stream, *mut u8) -> Result<(), String>) -> Result<(), BackendError> {
        let copy = || {
            self.context.enter()?;
            let stream = self.streams.first().ok_or("there is no stream")?;
            queue(stream, self.transfer.pointer())?;
            stream.synchronize()
        };
        copy().map_err(failed)
    }

    /// Waits until the queues are empty. Other queues of the device, which another thread may be capturing, are left
    /// alone.
    fn synchronize(&self) -> Result<(), String> {
        self.streams.iter().try_for_each(Stream::synchronize)
    }

    /// Returns the message of an error that occurred while a segment ran.
    fn running_error(&self, segment: usize, why: &str) -> String {
        let steps = &self.segments[segment].launches;
        let name =
            |launch: Option<&schedule::DeviceStep>| launch.map_or("", |launch| &self.names[launch.step]);
        format!(
            "one of the {} steps from {} to {} failed: {why}; run `ovolo bench --profile` to find it, which runs each \
             step separately",
            steps.len(),
            name(steps.first()),
            name(steps.last())
        )
    }
}

/// Makes the error of a device that reports something.
pub(super) fn failed(why: String) -> BackendError {
    BackendError::Device { backend: "cuda", why }
}

// SAFETY: the arena is the start of the pinned memory, which has the bytes of the arena and lives as long as the
// runtime; the commands were created from the plan's places.
unsafe impl Runner for Runtime {
    fn arena(&mut self) -> *mut u8 {
        self.pinned.pointer()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn begin(&mut self, inputs: &[&Tensor]) -> Result<(), BackendError> {
        self.context.enter().map_err(failed)?;
        if self.open {
            // The last run did not complete, so its queued work may still read the memory that is written now.
            self.synchronize().map_err(failed)?;
        }
        self.open = true;
        for Staged { input, offset, bytes } in &self.staged {
            let given = inputs.get(*input).map_or(&[][..], |tensor| tensor.bytes());
            if given.len() != *bytes {
                return Err(BackendError::InputBytes { input: *input, given: given.len(), needed: *bytes });
            }
            // SAFETY: the memory has room for this number of bytes, and nothing is queued.
            unsafe {
                let to = self.pinned.pointer().add(*offset);
                std::ptr::copy_nonoverlapping(given.as_ptr(), to, *bytes);
            }
        }
        Ok(())
    }

    fn launch(&mut self, segment: usize) -> Result<(), BackendError> {
        if self.runs == 0 {
            self.queue(segment).map_err(failed)?;
        } else {
            if self.replays[segment].is_none() {
                self.streams[0].begin().map_err(failed)?;
                let queued = self.queue(segment);
                // The capture must end even after an error, because otherwise the stream would never run its work
                // again.
                let kept = self.streams[0].end();
                queued.map_err(failed)?;
                self.replays[segment] = Some(kept.map_err(failed)?);
            }
            if let Some(replay) = &self.replays[segment] {
                self.streams[0].replay(replay).map_err(failed)?;
            }
        }
        self.segments[segment].end.record(&self.streams[0]).map_err(failed)
    }

    fn wait(&mut self, segment: usize) -> Result<(), BackendError> {
        self.segments[segment].end.synchronize().map_err(|why| failed(self.running_error(segment, &why)))
    }

    fn end(&mut self) -> Result<(), BackendError> {
        if let Some(last) = self.segments.len().checked_sub(1) {
            self.wait(last)?;
        }
        self.runs += 1;
        self.open = false;
        Ok(())
    }

    fn alone(&mut self, step: usize) -> Result<(), BackendError> {
        let Self { streams, commands, names, .. } = self;
        let stream = streams.first().ok_or_else(|| failed("there is no stream".to_owned()))?;
        commands[step]
            .iter_mut()
            .try_for_each(|one| queue(one, stream))
            .and_then(|()| stream.synchronize())
            .map_err(|why| failed(format!("{}: {why}", names[step])))
    }

    fn address(&self, place: Place) -> Option<u64> {
        self.ports.iter().find(|port| port.place == place).map(|port| port.address)
    }

    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), BackendError> {
        let device = self.port(place, bytes.len())?;
        self.copy(|stream, host| {
            // SAFETY: the pinned memory has the bytes of every port. Only these copies use it, one at a time, since `copy`
            // waits for each.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), host, bytes.len());
                stream.upload(device, host, bytes.len())
            }
        })
    }

    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), BackendError> {
        let device = self.port(place, bytes.len())?;
        // SAFETY: as in `write`.
        self.copy(|stream, host| unsafe { stream.download(host, device, bytes.len()) })?;
        // SAFETY: the copy has written these bytes of the pinned memory, and has ended.
        unsafe { std::ptr::copy_nonoverlapping(self.transfer.pointer(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Queued work may still use the resources that are released now.
        let _ = self.context.enter().and_then(|()| self.synchronize());
    }
}

impl Segment {
    fn new(context: &'static Context, launches: &[schedule::DeviceStep]) -> Result<Self, String> {
        let awaited = |at: usize| launches.iter().any(|launch| launch.after.contains(&at));
        let mark = |at: usize| awaited(at).then(|| Event::new(context)).transpose();
        Ok(Self {
            launches: launches.to_vec(),
            marks: (0..launches.len()).map(mark).collect::<Result<_, _>>()?,
            streams: launches.iter().map(|launch| launch.stream + 1).max().unwrap_or(1),
            end: Event::new(context)?,
        })
    }
}

/// Queues the command of a plan's step.
fn queue(command: &mut Command, stream: &Stream) -> Result<(), String> {
    // SAFETY: the plan gives values that are live at the same time separate places, each with the bytes of its type,
    // and the schedule orders the steps that share bytes.
    unsafe { command.queue(stream) }
}

/// Returns the generated kernels of each step that has some.
fn jobs(plan: &Plan) -> Result<Vec<Option<KernelJob>>, String> {
    let one = |step: &Step| {
        if schedule::device(step).is_none() || copies(step.op.name) {
            return Ok(None);
        }
        if step.copied.is_some() || !step.joined.is_empty() {
            return Err(format!(
                "`{}` ({}): an operand shares the result's buffer in a way that kernels on the device do not support",
                step.name, step.op
            ));
        }
        if !step.op.name.starts_with("cuda.") {
            return Ok(None);
        }
        let inputs: Vec<&TensorType> = step.input_types.iter().collect();
        let call = call(step, &inputs, plan.threads);
        job(&call).map(Some).map_err(|why| format!("`{}` ({}): {why}", step.name, step.op))
    };
    plan.steps.iter().map(one).collect()
}

/// Returns the call that a step computes.
fn call<'a>(step: &'a Step, inputs: &'a [&'a TensorType], threads: usize) -> Call<'a> {
    Call { op: step.op, attrs: &step.attrs, inputs, output: &step.output_type, threads }
}

/// Returns the offset of each constant that the device reads, and the bytes of all constants.
fn layout(
    plan: &Plan,
    constants: &FxHashMap<NodeId, Tensor>,
) -> Result<(FxHashMap<NodeId, usize>, usize), String> {
    let (mut offsets, mut bytes) = (FxHashMap::default(), 0);
    for step in &plan.steps {
        for (place, ty) in step.inputs.iter().zip(&step.input_types) {
            if let (Base::Constant(node), Device::Accelerator(FAMILY, _)) = (place.base, ty.device)
                && !offsets.contains_key(&node)
            {
                let value = constants.get(&node).ok_or("a constant has no value")?;
                offsets.insert(node, bytes);
                bytes += value.bytes().len().next_multiple_of(ALIGN);
            }
        }
    }
    Ok((offsets, bytes))
}

/// Returns the inputs that the device reads, with the offsets of their copies after the host's part of the arena, and
/// the bytes of both.
fn staging(plan: &Plan) -> (Vec<Staged>, usize) {
    let (mut staged, mut end) = (Vec::<Staged>::new(), plan.arena.next_multiple_of(ALIGN));
    for step in plan.steps.iter().filter(|step| schedule::device(step).is_some()) {
        for place in &step.inputs {
            if let Base::Input(input) = place.base
                && plan.inputs[input].1.device == Device::Host
                && !staged.iter().any(|known| known.input == input)
            {
                let bytes = plan.inputs[input].1.bytes();
                staged.push(Staged { input, offset: end, bytes });
                end += bytes.next_multiple_of(ALIGN);
            }
        }
    }
    (staged, end)
}

/// The addresses of a plan's values.
struct Places<'a> {
    memory: &'a Memory,
    constants: &'a Memory,
    offsets: &'a FxHashMap<NodeId, usize>,
    pinned: &'a Pinned,
    staged: &'a [Staged],
    resident: &'a [Option<Memory>],
    threads: usize,
}

impl Places<'_> {
    /// Returns an address on the device.
    fn device(&self, place: Place) -> Result<CUdeviceptr, String> {
        match place.base {
            Base::Arena(DEVICE) => Ok(self.memory.at(place.offset)),
            Base::Arena(_) => Err("an operand is not on the device".to_owned()),
            Base::Constant(node) => {
                let offset = self.offsets.get(&node).ok_or("a constant is not on the device")?;
                Ok(self.constants.at(offset + place.offset))
            }
            Base::Input(input) => {
                match self.resident.get(input).and_then(Option::as_ref) {
                    Some(memory) => Ok(memory.at(place.offset)),
                    None => Err("a step on the device reads an input of the model that is not copied there"
                        .to_owned()),
                }
            }
        }
    }

    /// Returns the inputs and outputs that lie on the device. Outputs that are constants stay on the host.
    fn ports(&self, plan: &Plan) -> Result<Vec<Port>, String> {
        let input = |(at, (_, ty)): (usize, &(_, TensorType))| {
            (Place { base: Base::Input(at), offset: 0 }, ty.device, ty.bytes())
        };
        let inputs = plan.inputs.iter().enumerate().map(input);
        let outputs = plan.outputs.iter().map(|(_, ty, place)| (*place, ty.device, ty.bytes()));
        inputs
            .chain(outputs)
            .filter(|(place, device, _)| *device == DEVICE && !matches!(place.base, Base::Constant(_)))
            .map(|(place, _, bytes)| Ok(Port { place, address: self.device(place)?, bytes }))
            .collect()
    }

    /// Returns an address on the host.
    fn host(&self, place: Place) -> Result<*mut u8, String> {
        let offset = match place.base {
            Base::Arena(Device::Host) => place.offset,
            Base::Input(input) => {
                let found = self.staged.iter().find(|known| known.input == input);
                found
                    .map(|known| known.offset + place.offset)
                    .ok_or("an input has no copy in pinned memory")?
            }
            _ => return Err("an operand is not on the host".to_owned()),
        };
        Ok(self.pinned.pointer().wrapping_add(offset))
    }

    fn commands(
        &self,
        step: &Step,
        job: Option<&KernelJob>,
        code: Option<&Code>,
        means: &mut Means<'_>,
    ) -> Result<Vec<Command>, String> {
        let bytes = step.output_type.bytes();
        if bytes == 0 || schedule::device(step).is_none() {
            return Ok(Vec::new());
        }
        match step.op.name {
            "cuda.upload" => {
                let (to, from) = (self.device(step.output)?, self.host(step.inputs[0])?);
                return Ok(vec![Command::Upload { to, from, bytes }]);
            }
            "cuda.download" => {
                let (to, from) = (self.host(step.output)?, self.device(step.inputs[0])?);
                return Ok(vec![Command::Download { to, from, bytes }]);
            }
            _ => {}
        }
        let buffers = Buffers {
            inputs: step.inputs.iter().map(|place| self.device(*place)).collect::<Result<_, _>>()?,
            output: self.device(step.output)?,
            scratch: self.device(Place { base: Base::Arena(DEVICE), offset: step.scratch_offset })?,
            bytes: step.scratch,
        };
        match job {
            Some(job) => command::kernels(job, code.ok_or("there is no machine code")?, &buffers),
            None => {
                let inputs: Vec<&TensorType> = step.input_types.iter().collect();
                Ok(vec![library(&call(step, &inputs, self.threads), &buffers, means)?])
            }
        }
    }
}

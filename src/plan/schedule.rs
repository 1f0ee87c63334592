//! The schedule: which steps of a plan may run at the same time on a device, and where one waits for another.
//!
//! It divides the steps of a plan into segments: consecutive steps of a device, each with the stream on which it is
//! queued and the steps of other streams for which it waits. Copies to a device have a stream of their own, and so do
//! copies from it, because a device copies in both directions while its kernels run, and a copy behind a kernel on
//! the same stream would wait for it without need. A step waits for earlier steps that write what it reads or writes,
//! or that read what it writes. Buffers share memory, so this compares bytes and not values. Steps of the host run
//! between segments, and wait for the segments with which they share bytes. The schedule follows from the plan alone.

use super::{Base, Plan, Step};
use crate::tensor::{Device, TensorType};
use std::ops::Range;

/// The most streams for kernels. More parallel branches are rare, and they share streams.
const KERNELS: usize = 4;
/// The number of all streams: those of kernels, that of copies to the device, and that of copies from it.
const STREAMS: usize = KERNELS + 2;

/// A step of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStep {
    /// The index of the step.
    pub step: usize,
    /// The stream on which it is queued.
    pub stream: usize,
    /// The launches on other streams that must finish first, by their indices in the segment. A launch for which one
    /// of these already waits is left out.
    pub after: Vec<usize>,
}

/// The next part of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A step of the host, and the segment after which it runs; all earlier segments are done then, too.
    Host(usize, Option<usize>),
    /// The next segment of device steps. The host does not wait for it yet.
    Segment(usize),
}

/// The schedule of a plan with a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The parts, in order.
    pub items: Vec<Item>,
    /// The segments. All steps of one segment run after those of the segment before it.
    pub segments: Vec<Vec<DeviceStep>>,
}

/// Returns the backend of the device on which a step is queued: the step has a result or an operand on that device.
pub fn device(step: &Step) -> Option<&'static str> {
    let there = |ty: &TensorType| ty.device != Device::Host;
    let any = there(&step.output_type) || step.input_types.iter().any(there);
    step.op.backend().filter(|_| any)
}

/// The kind of a step on a device. Steps of different kinds can run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Kernel,
    Upload,
    Download,
}

impl Kind {
    fn new(step: &Step) -> Self {
        let host = |ty: &TensorType| ty.device == Device::Host;
        match (step.input_types.iter().all(host), host(&step.output_type)) {
            (true, false) => Self::Upload,
            (false, true) => Self::Download,
            _ => Self::Kernel,
        }
    }

    /// Returns the streams on which it may be queued.
    fn streams(self) -> Range<usize> {
        match self {
            Self::Kernel => 0..KERNELS,
            Self::Upload => KERNELS..KERNELS + 1,
            Self::Download => KERNELS + 1..STREAMS,
        }
    }
}

/// The kind of a step, and the bytes of the arenas that it reads and writes.
pub(super) struct Bytes {
    pub kind: Kind,
    pub reads: Vec<(Device, Range<usize>)>,
    pub writes: Vec<(Device, Range<usize>)>,
}

impl Bytes {
    fn new(step: &Step) -> Self {
        let operands = step.inputs.iter().zip(&step.input_types);
        let reads = operands.filter_map(|(place, ty)| match place.base {
            Base::Arena(device) => Some((device, place.offset..place.offset + ty.bytes())),
            Base::Input(_) | Base::Constant(_) => None,
        });
        let device = step.output_type.device;
        let output = step.output.offset..step.output.offset + step.output_type.bytes();
        let scratch = step.scratch_offset..step.scratch_offset + step.scratch;
        Self {
            kind: Kind::new(step),
            reads: reads.collect(),
            writes: vec![(device, output), (device, scratch)],
        }
    }

    /// Returns whether two steps must keep their order.
    fn meets(&self, other: &Self) -> bool {
        type Ranges = [(Device, Range<usize>)];
        let meet = |a: &Ranges, b: &Ranges| {
            let one = |(on, a): &(Device, Range<usize>), (at, b): &(Device, Range<usize>)| {
                on == at && a.start.max(b.start) < a.end.min(b.end)
            };
            a.iter().any(|a| b.iter().any(|b| one(a, b)))
        };
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
    }
}

impl Schedule {
    /// Returns the schedule of a plan.
    pub fn new(plan: &Plan) -> Self {
        let bytes: Vec<Bytes> = plan.steps.iter().map(Bytes::new).collect();
        let mut schedule = Self::default();
        let mut open = Vec::new();
        for (at, step) in plan.steps.iter().enumerate() {
            if device(step).is_some() {
                open.push(at);
                continue;
            }
            schedule.close(&mut open, &bytes);
            let met =
                |segment: &Vec<DeviceStep>| segment.iter().any(|launch| bytes[launch.step].meets(&bytes[at]));
            let after = schedule.segments.iter().rposition(met);
            schedule.items.push(Item::Host(at, after));
        }
        schedule.close(&mut open, &bytes);
        schedule
    }

    fn close(&mut self, open: &mut Vec<usize>, bytes: &[Bytes]) {
        if !open.is_empty() {
            self.items.push(Item::Segment(self.segments.len()));
            self.segments.push(segment(&std::mem::take(open), bytes));
        }
    }

    /// Returns where a step of a device is queued: the index of the segment, and the launch in it.
    pub(crate) fn launch(&self, step: usize) -> Option<(usize, &DeviceStep)> {
        let numbered = self.segments.iter().enumerate();
        numbered
            .flat_map(|(at, segment)| segment.iter().map(move |launch| (at, launch)))
            .find(|(_, l)| l.step == step)
    }
}

/// Assigns streams to consecutive steps. Among the streams of its kind, a step takes one whose last step it waits
/// for, so that a chain stays on one stream. If there is none, it takes a stream on which it need not wait for
/// anything, or else the one whose queue ended first. Streams are numbered in the order of their first use.
pub(super) fn segment(steps: &[usize], bytes: &[Bytes]) -> Vec<DeviceStep> {
    let mut launches: Vec<DeviceStep> = Vec::with_capacity(steps.len());
    // For each launch and each stream, the number of launches that are known to be done when it begins. On its own
    // stream this includes the launch itself, because streams keep their order.
    let mut done: Vec<[usize; STREAMS]> = Vec::with_capacity(steps.len());
    let mut queued: [Vec<usize>; STREAMS] = Default::default();
    for (at, &step) in steps.iter().enumerate() {
        let waits: Vec<usize> = (0..at).filter(|before| bytes[steps[*before]].meets(&bytes[step])).collect();
        let last = |stream: usize| queued[stream].last().copied();
        let streams = bytes[step].kind.streams();
        let chain = streams.clone().filter(|stream| last(*stream).is_some_and(|last| waits.contains(&last)));
        let stream = chain.max_by_key(|stream| last(*stream)).unwrap_or_else(|| {
            // An empty stream comes before all others.
            streams.min_by_key(|stream| (last(*stream), *stream)).unwrap_or(0)
        });
        let mut known = last(stream).map_or([0; STREAMS], |last| done[last]);
        let mut after = Vec::new();
        for &before in waits.iter().rev() {
            let of = launches[before].stream;
            if known[of] < done[before][of] {
                after.push(before);
                known.iter_mut().zip(done[before]).for_each(|(known, done)| *known = (*known).max(done));
            }
        }
        queued[stream].push(at);
        known[stream] = queued[stream].len();
        done.push(known);
        launches.push(DeviceStep { step, stream, after });
    }
    let mut numbers: Vec<usize> = Vec::new();
    for launch in &mut launches {
        let number = numbers.iter().position(|stream| *stream == launch.stream);
        launch.stream = number.unwrap_or_else(|| {
            numbers.push(launch.stream);
            numbers.len() - 1
        });
    }
    launches
}

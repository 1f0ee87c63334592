//! Measures the speeds of this machine, and keeps them.
//!
//! A first start measures them in some hundredths of a second, which suffices to choose a plan. Commands that ask for
//! more take about a second: `ovolo doctor`, and tuning.
//!
//! It measures with kernels that a backend names for it ([`Backend::probes`]): a matrix product for arithmetic, copies
//! that are larger and smaller than the last-level cache for memory traffic, and a tiny copy for the time to start a
//! kernel.

use crate::placement::Placement;
use ovolo::backend::features::{self, InstructionSets};
use ovolo::backend::{Args, Backend, Backends, Kernel, Probes};
use ovolo::cache::home;
use ovolo::cost::Machine;
use ovolo::file;
use ovolo::op::{Call, Ops};
use ovolo::registry::Registry;
use ovolo::team::Team;
use ovolo::tensor::{DType, Tensor, TensorType};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The content of the file: the speeds, and the conditions under which they hold.
#[derive(PartialEq, Serialize, Deserialize)]
struct Kept {
    version: String,
    features: Vec<String>,
    /// The backend whose kernels were used.
    backend: Option<String>,
    threads: usize,
    machine: Machine,
    /// When the speeds were measured, in seconds since 1970, if the machine had other work at that time.
    #[serde(default)]
    disturbed: Option<u64>,
    /// Whether they were measured in a short time.
    #[serde(default)]
    brief: bool,
}

/// How long speeds are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// A few runs of each kernel.
    Brief,
    /// Until the times have settled.
    Full,
}

/// The measured speeds of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// The speeds.
    pub machine: Machine,
    /// Whether the measurement was undisturbed. Speeds that were measured while the machine had other work are used for
    /// [`DISTURBED_FOR`], and then measured again.
    pub steady: bool,
    /// Whether they were measured in a short time. [`settled`] measures such speeds again.
    pub brief: bool,
}

impl Calibration {
    /// Says how the speeds were measured, if not as well as they could be.
    pub fn reservation(&self) -> Option<&'static str> {
        match (self.brief, self.steady) {
            (false, true) => None,
            (true, true) => Some("measured in a short time"),
            (false, false) => Some("measured on a busy machine"),
            (true, false) => Some("measured in a short time on a busy machine"),
        }
    }
}

/// How long speeds are used that were measured while the machine had other work. Measuring takes a second, and processes
/// that start one after another should choose the same plan.
pub const DISTURBED_FOR: Duration = Duration::from_secs(600);

/// Returns the speeds with `threads` threads: the kept ones, or those that are measured now, in a short time, and then
/// kept.
///
/// If nothing can be measured, the speeds are those of a nominal machine.
pub fn machine(registry: &Registry, threads: usize) -> Calibration {
    known(registry.backends(), threads).unwrap_or_else(|| measured(registry, threads, Effort::Brief))
}

/// Returns the speeds with `threads` threads. Those that were measured in a short time, or while the machine had other
/// work, are measured again.
pub fn settled(registry: &Registry, threads: usize) -> Calibration {
    let known = Kept::read(registry.backends(), threads).filter(|kept| !kept.brief);
    match known.and_then(|kept| kept.usable()).filter(|known| known.steady) {
        Some(known) => known,
        None => measured(registry, threads, Effort::Full),
    }
}

fn measured(registry: &Registry, threads: usize, effort: Effort) -> Calibration {
    let Some(prober) = Prober::find(registry.backends()).filter(|prober| prober.runs_here(registry.ops()))
    else {
        return Calibration { machine: Machine::NOMINAL, steady: false, brief: false };
    };
    let (machine, steady) = prober.measure(registry.ops(), threads, effort);
    let disturbed = if steady { None } else { Some(now()) };
    let brief = effort == Effort::Brief;
    let measured = Kept { disturbed, brief, ..Kept::new(registry.backends(), threads, machine) };
    // If the speeds cannot be kept, the next process measures them again. Otherwise they are read back, so that this
    // process uses the same bits as later ones.
    let kept = measured.write().ok().and_then(|()| Kept::read(registry.backends(), threads));
    kept.and_then(|kept| kept.usable()).unwrap_or(Calibration { machine, steady, brief })
}

/// The time, in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Whether speeds can be measured: a backend has kernels for it, and they run on this processor.
pub fn can_measure(registry: &Registry) -> bool {
    Prober::find(registry.backends()).is_some_and(|prober| prober.runs_here(registry.ops()))
}

/// Returns the kept speeds for `threads` threads, if they are of this version, this processor and the same backend, and
/// were measured while the machine had no other work.
pub fn kept(backends: &Backends, threads: usize) -> Option<Machine> {
    Kept::read(backends, threads).filter(|kept| kept.disturbed.is_none()).map(|kept| kept.machine)
}

/// Returns the kept speeds for `threads` threads that a compilation would use without measuring anything, also those that
/// were measured in a short time, or while the machine had other work.
pub fn known(backends: &Backends, threads: usize) -> Option<Calibration> {
    Kept::read(backends, threads).and_then(|kept| kept.usable())
}

/// Keeps the speeds for `threads` threads.
///
/// # Errors
/// An error if there is no folder for them, or if it cannot be written.
pub fn keep_machine(backends: &Backends, threads: usize, machine: Machine) -> std::io::Result<()> {
    Kept::new(backends, threads, machine).write()
}

impl Kept {
    fn new(backends: &Backends, threads: usize, machine: Machine) -> Self {
        let features = backends.planned_features().iter().map(ToString::to_string).collect();
        let backend = Prober::find(backends).map(|prober| prober.backend.name().to_owned());
        Self { version: version(), features, backend, threads, machine, disturbed: None, brief: false }
    }

    /// Reads the file for `threads` threads; `None` if its speeds are of another version, processor or backend.
    fn read(backends: &Backends, threads: usize) -> Option<Self> {
        let kept: Self = serde_json::from_slice(&file::read(&path(threads)?).ok()??).ok()?;
        let here = Self {
            disturbed: kept.disturbed,
            brief: kept.brief,
            ..Self::new(backends, threads, kept.machine)
        };
        (kept == here).then_some(kept)
    }

    fn write(&self) -> std::io::Result<()> {
        let path = path(self.threads).ok_or(std::io::ErrorKind::NotFound)?;
        let text = serde_json::to_string(self)?;
        file::update(&path, |_| text.into_bytes())
    }

    /// Returns the speeds, unless they were measured under other work too long ago. A time in the future is that of a clock
    /// that was set back since.
    fn usable(&self) -> Option<Calibration> {
        let fresh = |then: u64| now().checked_sub(then).is_some_and(|age| age < DISTURBED_FOR.as_secs());
        let steady = self.disturbed.is_none();
        (steady || self.disturbed.is_some_and(fresh)).then_some(Calibration {
            machine: self.machine,
            steady,
            brief: self.brief,
        })
    }
}

/// The shortest round trip between as many threads on this processor, in seconds.
#[derive(Serialize, Deserialize)]
struct KeptPlacement {
    version: String,
    processor: String,
    round_trip: f64,
}

fn placement_path(threads: usize) -> Option<PathBuf> {
    Some(home()?.join(format!("placement-{threads}.json")))
}

/// Returns the placement of a team, found from what is kept and from what is measured now.
pub fn placement(team: &Team) -> Placement {
    let kept = || -> Option<f64> {
        let kept: KeptPlacement =
            serde_json::from_slice(&file::read(&placement_path(team.threads())?).ok()??).ok()?;
        (kept.version == version() && kept.processor == features::processor()).then_some(kept.round_trip)
    };
    let placement = Placement::find(team, kept());
    keep_placement(team, &placement);
    placement
}

/// Keeps a shorter round trip, if one was measured. If that fails, the next process measures it again.
pub fn keep_placement(team: &Team, placement: &Placement) {
    if let (Some(round_trip), Some(path)) = (placement.news(), placement_path(team.threads())) {
        let kept = KeptPlacement { version: version(), processor: features::processor(), round_trip };
        let _ = serde_json::to_string(&kept).map(|text| file::update(&path, |_| text.into_bytes()));
    }
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

fn path(threads: usize) -> Option<PathBuf> {
    Some(home()?.join(format!("machine-{threads}.json")))
}

/// The most repetitions; they stop when two in a row are not faster.
const SITTINGS: usize = 12;
/// A repetition is faster if it is faster by this factor.
const FASTER: f64 = 1.03;
/// The pause between repetitions, so that one disturbance does not affect two of them.
const PAUSE: Duration = Duration::from_millis(25);

/// By what the runs of a repetition are divided where speeds are measured in a short time.
const BRIEF: usize = 2;

/// The share of processor time that the measurement must have had.
const OWN: f64 = 0.9;
/// The same for a short measurement, of which one interruption takes a large share. The fastest of its runs is not
/// affected by it.
const OWN_BRIEF: f64 = 0.7;

/// The backend whose kernels measure.
struct Prober<'a> {
    backend: &'a dyn Backend,
    probes: Probes,
}

impl<'a> Prober<'a> {
    /// Returns the first backend that has kernels to measure with.
    fn find(backends: &'a Backends) -> Option<Self> {
        backends.iter().find_map(|(_, backend)| {
            let backend: &dyn Backend = &**backend;
            backend.probes().map(|probes| Prober { backend, probes })
        })
    }

    /// Whether its kernels run on this processor.
    fn runs_here(&self, ops: &Ops) -> bool {
        // No kernel runs if plans are made for another processor.
        let planned = self.backend.instruction_sets().map(InstructionSets::planned);
        let names = [self.probes.product, self.probes.copy];
        planned.is_none_or(|set| set.runs_here) && names.iter().all(|op| ops.get(op).is_some())
    }

    /// Returns the fastest of several repetitions, and whether it is worth keeping: the times had settled, and no other
    /// process used the processors.
    fn measure(&self, ops: &Ops, threads: usize, effort: Effort) -> (Machine, bool) {
        let lanes = self.backend.instruction_sets().map(|sets| sets.planned().lanes);
        let (machine, steady) = measure(&self.probes, ops, threads, effort);
        (Machine { lanes: lanes.unwrap_or(machine.lanes), ..machine }, steady)
    }
}

fn measure(probed: &Probes, ops: &Ops, threads: usize, effort: Effort) -> (Machine, bool) {
    let team = Team::new(threads);
    const SIDE: usize = 768;
    let copy = |bytes: usize| {
        let a = Tensor::zeros(TensorType::plain(DType::F32, [bytes / 4]));
        Probe::new(&team, ops, probed.copy, vec![a])
    };
    let side = |layout: &str| {
        let layout = layout.parse().unwrap_or_default();
        Tensor::zeros(TensorType::plain(DType::F32, [SIDE, SIDE]).with_layout(layout))
    };
    // Larger than the last-level cache. Most of the time of a brief measurement is that in which the system finds memory
    // for these buffers.
    let large = if effort == Effort::Brief { 32 << 20 } else { 96 << 20 };
    // A kernel, the number of runs in one repetition, and the work of one run.
    #[allow(clippy::cast_precision_loss)]
    let mut probes = [
        (
            Probe::new(&team, ops, probed.product, probed.layouts.map(side).to_vec()),
            8_usize,
            2.0 * (SIDE * SIDE * SIDE) as f64,
        ),
        (copy(large), 2, 2.0 * large as f64),
        (copy(512 << 10), 60, f64::from(2 * (512 << 10))),
        (copy(64), 500, 1.0),
    ];
    let mut best = [f64::INFINITY; 4];
    let mut idle = 0;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(threads);
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    // The processor time that arithmetic had, and the time that it could have had, because it never waits.
    let (mut wanted, mut had) = (Duration::ZERO, Duration::ZERO);
    let sittings = if effort == Effort::Brief { 1 } else { SITTINGS };
    for sitting in 0..sittings {
        if sitting > 0 {
            std::thread::sleep(PAUSE);
        }
        let mut faster = false;
        for (at, ((probe, rounds, _), best)) in probes.iter_mut().zip(&mut best).enumerate() {
            let rounds = if effort == Effort::Brief { rounds.div_ceil(BRIEF) } else { *rounds };
            let before = processor_time();
            let start = Instant::now();
            let seconds = probe.as_mut().map_or(f64::INFINITY, |probe| probe.fastest(rounds));
            if let (0, Some(before), Some(after)) = (at, before, processor_time()) {
                wanted += start.elapsed() * processors;
                had += after.saturating_sub(before);
            }
            faster |= seconds * FASTER < *best;
            *best = best.min(seconds);
        }
        idle = if faster { 0 } else { idle + 1 };
        if idle == 2 {
            break;
        }
    }
    let rate = |at: usize, nominal: f64| {
        if best[at].is_finite() { probes[at].2 / best[at] } else { nominal }
    };
    let nominal = Machine::NOMINAL;
    let machine = Machine {
        flops: rate(0, nominal.flops),
        memory: rate(1, nominal.memory),
        cache: rate(2, nominal.cache),
        start: 1.0 / rate(3, 1.0 / nominal.start),
        lanes: nominal.lanes,
    };
    let (settled, own) = match effort {
        Effort::Brief => (true, OWN_BRIEF),
        Effort::Full => (idle == 2, OWN),
    };
    (machine, settled && had.as_secs_f64() >= own * wanted.as_secs_f64())
}

/// The processor time of this process so far, if the system reports it.
#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}

/// The processor time of this process so far, if the system reports it.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is this function's own.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0 {
        return None;
    }
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
    Some(seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).ok()?))
}

/// A kernel with its buffers.
struct Probe<'a> {
    team: &'a Team,
    kernel: Box<dyn Kernel>,
    operands: Vec<Tensor>,
    result: Tensor,
    scratch: Tensor,
}

impl<'a> Probe<'a> {
    /// Returns `None` if there is no kernel for these operands.
    fn new(team: &'a Team, ops: &Ops, op: &str, operands: Vec<Tensor>) -> Option<Self> {
        let op = ops.get(op)?;
        let attrs = op.complete(ovolo::attr::Attrs::new());
        let types: Vec<&TensorType> = operands.iter().map(Tensor::ty).collect();
        let output = op.result(&attrs, &types).ok()?;
        let call = Call { op, attrs: &attrs, inputs: &types, output: &output, threads: team.threads() };
        let contract = call.contract().ok().filter(|contract| contract.alias.is_none())?;
        let kernel = call.kernel().ok()?;
        let scratch = Tensor::zeros(TensorType::plain(DType::U8, [contract.scratch.max(1)]));
        let result = Tensor::zeros(output);
        Some(Self { team, kernel, operands, result, scratch })
    }

    /// Returns the time of the fastest of `rounds` runs, in seconds.
    fn fastest(&mut self, rounds: usize) -> f64 {
        let inputs: Vec<*const u8> = self.operands.iter().map(|operand| operand.bytes().as_ptr()).collect();
        let args = Args {
            inputs: &inputs,
            output: self.result.bytes_mut().as_mut_ptr(),
            scratch: self.scratch.bytes_mut().as_mut_ptr(),
            team: self.team,
        };
        let once = || {
            let start = Instant::now();
            // SAFETY: kernel and contract are of the same call, whose types are those of the tensors, and which has
            // no alias; each buffer is a tensor of its own.
            unsafe { self.kernel.run(&args) };
            start.elapsed().as_secs_f64()
        };
        (0..=rounds).map(|_| once()).fold(f64::INFINITY, f64::min)
    }
}

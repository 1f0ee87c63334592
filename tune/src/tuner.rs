//! Tuning: times the kernels among which the extraction of a model chooses, once for each machine.
//!
//! Takes a graph and its pipeline, times every candidate in the saturated e-graph that the table lacks, and
//! keeps the table in one readable file. Candidates for one value take turns. The time of each is the median
//! of undisturbed runs: no other process and no virtual machine that moves its processors
//! ([`crate::placement`]) interfered. Candidates with close times run more often. One whose result is wrong
//! is recorded and never chosen. A candidate whose estimate is many times that of another kernel for the same
//! value is not timed: its estimate stays, and its line says so.
//!
//! A kernel takes a different time within a plan than alone. So the plan that follows from these times is run
//! with some others around it, step by step (`in_plan`). And the time of a plan is not quite the sum of its
//! kernels' times, so [`crate::compile`] also times the few best plans whole, and keeps which one won beside
//! the times.

use crate::check::Checker;
use crate::clock::{Clock, Runnable, lower_quartile, median};
use crate::gain::{self, Belief};
use crate::limit::{Phase, TimeLimit};
use crate::operand::{device_bytes, operand_bytes};
use crate::ratios::Ratios;
use crate::sample::Sampling;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::source::Source;
use ovolo::backend::{BackendError, Backends};
use ovolo::cache::Digest;
use ovolo::compile::Options;
use ovolo::cost::{
    Basis, CostModel, Differs, Entry, InPlans, Machine, Measured, PriceModel, Query, State, Stored,
    Validators,
};
use ovolo::egraph::KernelCall;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::host;
use ovolo::op::{Call, Contract, OpError};
use ovolo::plan::{Base, Plan, Step};
use ovolo::stage::Target;
use ovolo::team::Team;
use ovolo::tensor::TensorType;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A candidate is skipped if its estimate is this many times that of its best rival.
const HOPELESS: f64 = 3.0;
/// The same within a limit of time, where the runs are better spent on other values. Estimates are wrong by a third in the
/// median, and a kernel with this estimate gains nothing if it takes a third less and the best one a third more.
const UNLIKELY: f64 = 2.0;
/// The standard deviation of the logarithm of a measured time, and the least one of an estimate.
const TIMED: f64 = 0.05;
/// The largest one of an estimate. From 1.8 on, the distribution of times has no mean.
const UNKNOWN: f64 = 1.0;
/// The number of kernels in a batch; they take turns.
const BATCH: usize = 48;
/// The same within a limit of time, which ends between two batches.
const SMALL_BATCH: usize = 12;
/// The most bytes of a device that the kernels of a batch take together. One that takes more is a batch of its own.
const ALIVE: usize = 4 << 30;
/// The most bytes of operands and results of a batch within a limit of time.
const FILLED: usize = 256 << 20;
/// About how many seconds it takes to fill, pack and check one byte of them.
const PREPARED: f64 = 5e-9;
/// The number of runs of every candidate, of those near the best, and of those close to it.
const RUNS: [usize; 3] = [3, 7, 13];
/// The multiples of the best time that count as near, and as close.
const NEAR: [f64; 2] = [1.4, 1.06];
/// The most tries for one undisturbed run.
const TRIES: usize = 5;
/// How long a tuning waits in all for a good placement of the threads.
const PATIENCE: Duration = Duration::from_secs(12);
/// The seconds that the runs of one kernel may take after the fewest runs are done.
const LONG: f64 = 0.15;
/// How often the table is written.
const KEEP: Duration = Duration::from_secs(3);

/// The message if [`Tuner::progress`] returns `false`.
/// Kernels cannot be timed, since their backend is absent.
#[derive(Debug, thiserror::Error)]
#[error("kernels of `{backend}` can only be timed where this backend is available: {source}")]
pub struct Untimed {
    /// The backend.
    pub backend: String,
    /// Why it is absent.
    pub source: BackendError,
}

pub(crate) fn stopped() -> Error {
    Error::Stopped { task: "tuning", kept: "what was timed is kept" }
}

/// What is being timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuningStage {
    /// Kernels, each alone.
    Kernels,
    /// Plans, for the times of kernels within them.
    Plans,
}

/// The progress of tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being timed.
    pub stage: TuningStage,
    /// The number that are done.
    pub done: usize,
    /// The number to time.
    pub all: usize,
}

/// The plans within which kernels are timed, in addition to the extracted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// How many are drawn around it.
    pub plans: usize,
    /// How far they are from it: the disturbance of prices as a multiple of the usual one.
    pub spread: usize,
}

/// What a tuning did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Kernels among which the extraction chooses.
    pub kernels: usize,
    /// Kernels that the table already had.
    pub known: usize,
    /// Kernels that were timed.
    pub timed: usize,
    /// Timed kernels whose time is rough, because their runs were disturbed.
    pub rough: usize,
    /// Kernels whose result was wrong.
    pub wrong: usize,
    /// Kernels that were skipped, because their estimate is hopeless.
    pub skipped: usize,
    /// Kernels that were not timed, because the time or the memory of a device was limited.
    pub untimed: usize,
    /// Disturbed runs, which do not count.
    pub disturbed: usize,
    /// Kernels that were timed within whole plans.
    pub in_plans: usize,
}

impl Tally {
    /// Adds what another tuning of the same kernels timed.
    pub(crate) fn add_runs(&mut self, other: &Self) {
        self.timed += other.timed;
        self.wrong += other.wrong;
        self.rough += other.rough;
        self.disturbed += other.disturbed;
    }
}

/// Times kernels and keeps the times in a table.
pub struct Tuner<'a> {
    pub(crate) threads: usize,
    pub(crate) machine: Machine,
    pub(crate) backends: Backends,
    pub(crate) validators: Validators,
    file: Option<Shared>,
    pub(crate) stored: Stored,
    pub(crate) notes: Vec<String>,
    /// Whether to time kernels with a rough time again, and then to race plans again.
    pub refine: bool,
    /// The part of the kernels that is timed here.
    pub shard: Shard,
    /// The plans to draw and time whole, in addition to those that the times suggest.
    pub sampling: Option<Sampling>,
    /// The plans to time kernels within; by default, those near the extracted one, for some seconds.
    pub within: Option<Within>,
    /// Called after every few kernels or plans. If it returns `false`, tuning stops and keeps what it has.
    pub progress: Box<dyn FnMut(Progress) -> bool + 'a>,
    /// How long kernels may be timed. After that, each remaining kernel has the fewest runs.
    pub budget: Duration,
    /// The most time that the tuning of a model takes, if there is a limit.
    pub limit: Option<TimeLimit>,
    /// The lines of the kernels in the plan by the price list. Within a limit of time, the candidates for their values are
    /// timed before all others, because most values of other forms of the graph end in no plan.
    pub(crate) planned: BTreeSet<String>,
}

struct Job {
    call: KernelCall,
    contract: Contract,
    key: String,
    /// Kernels with the same number compute the same value.
    rivals: usize,
    /// About how many seconds the plan may gain where the times of the kernels for the values that it may compute are
    /// known.
    gain: f64,
    /// Whether the plan computes one of these values.
    planned: bool,
}

/// A value whose candidates are to be timed.
#[derive(Default)]
struct Value {
    /// Whether the plan computes it.
    planned: bool,
    /// About how many seconds the plan may gain by the times.
    gain: f64,
    /// About how many seconds it takes to time the candidates.
    takes: f64,
}

impl Value {
    /// The order in which values are timed: those of the plan first, and among them those that gain more for each second.
    fn order(&self, other: &Self) -> Ordering {
        let worth = |one: &Self| one.gain / one.takes;
        other.planned.cmp(&self.planned).then(worth(other).total_cmp(&worth(self)))
    }
}

/// A kernel among which the extraction chooses.
struct Candidate {
    call: KernelCall,
    contract: Contract,
    key: String,
    /// Candidates with the same number compute the same value.
    rivals: usize,
    /// What is known of its time.
    belief: Belief,
}

impl Job {
    /// About how many seconds it takes to time the kernel.
    #[allow(clippy::cast_precision_loss)] // Both are small.
    fn takes(&self) -> f64 {
        RUNS[1] as f64 * self.call.seconds + operand_bytes(&self.call) as f64 * PREPARED
    }

    /// The line of a kernel that is not timed, and why.
    fn estimate(&self, state: State) -> Entry {
        Entry {
            state,
            seconds: self.call.seconds,
            samples: 0,
            spread: 0.0,
            in_plans: InPlans::Unknown,
            implementation: self.contract.implementation.clone(),
            error: None,
        }
    }
}

impl<'a> Tuner<'a> {
    /// Returns a tuner with the table that is kept in a folder; without a folder, nothing is kept. The lines
    /// of the table hold as long as these backends do not change.
    pub fn open(folder: Option<&Path>, threads: usize, machine: Machine, backends: &Backends) -> Self {
        let validators = host::validators(threads, backends);
        let mut notes = Vec::new();
        let opened =
            folder.map(|folder| Shared::open(folder.join(format!("times-{threads}.txt")), &validators));
        let (file, stored) = opened.map_or_else(Default::default, |(file, stored, note)| {
            notes.extend(note);
            (Some(file), stored)
        });
        Self {
            threads,
            machine,
            backends: backends.clone(),
            validators,
            file,
            stored,
            notes,
            refine: false,
            shard: Shard::WHOLE,
            sampling: None,
            within: None,
            progress: Box::new(|_| true),
            budget: Duration::from_secs(25),
            limit: None,
            planned: BTreeSet::new(),
        }
    }

    /// Whether the limited time for a phase is used up.
    pub(crate) fn late(&self, phase: Phase) -> bool {
        self.limit.is_some_and(|limit| limit.left(phase).is_zero())
    }

    /// The stored times and decisions.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Adds lines of another table to this one, and keeps it.
    ///
    /// # Errors
    /// What differs if this table has other lines for the same kernels; then nothing is added.
    pub fn adopt(&mut self, basis: &Basis) -> Result<(), Differs> {
        let mut stored = self.stored.clone();
        basis.add_to(&mut stored);
        if let Some(differs) = basis.differs(&stored) {
            return Err(differs);
        }
        self.stored = stored;
        self.keep();
        Ok(())
    }

    /// A digest of the lines of some kernels, that is, of their prices.
    pub fn digest(&self, keys: &BTreeSet<String>) -> String {
        let line = |key: &String| {
            let entry = self.stored.table.entries.get(key);
            format!("{key}\t{}", entry.map_or_else(|| "nothing".to_owned(), Entry::to_text))
        };
        let lines: Vec<String> = keys.iter().map(line).collect();
        Digest::texts(lines.iter().map(String::as_str)).to_string()
    }

    /// Returns and clears the messages about the table, one line each.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The cost model with the present times.
    pub fn measured(&self) -> Measured {
        Measured { table: Arc::new(self.stored.table.clone()), ..Measured::default() }
    }

    /// Writes the table, together with what other processes have written meanwhile. If that fails, a message is added, and
    /// the kernels are timed again next time.
    pub(crate) fn keep(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.keep(&self.validators, &self.stored)
        {
            let note = format!("{}: the table of times cannot be written: {error}", file.path().display());
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Times the kernels of a graph that the table lacks.
    ///
    /// # Errors
    /// An error if the graph does not verify, if rules fail, or if tuning was stopped.
    pub fn fill(&mut self, graph: &Graph, options: &Options) -> Result<Tally, Error> {
        self.fill_with(&Source::new(graph, options)?, options, &BTreeSet::new())
    }

    /// Like [`Tuner::fill`], but kernels in `chosen` are never skipped as hopeless.
    pub(crate) fn fill_with(
        &mut self,
        source: &Source<'_>,
        options: &Options,
        chosen: &BTreeSet<String>,
    ) -> Result<Tally, Error> {
        let measured = self.measured().for_graph(source.graph);
        let (mut jobs, mut tally) = self.jobs(source, options, &measured, chosen);
        let mut rest = Vec::new();
        if let Some(limit) = self.limit {
            let values: Vec<(usize, f64)> = jobs.iter().map(|job| (job.rivals, job.gain)).collect();
            let count = if limit.left(Phase::Kernels).is_zero() { 0 } else { limit.worthwhile(&values) };
            rest = jobs.split_off(count);
        }
        let mut ratios = Ratios::default();
        if jobs.is_empty() {
            self.leave(rest.iter(), &ratios, &mut tally);
            return Ok(tally);
        }
        let names: BTreeSet<&str> = jobs.iter().filter_map(|job| job.call.op.backend()).collect();
        for name in names {
            if let Some(Err(why)) = self.backends.get(name).map(|backend| backend.found()) {
                return Err(Error::other(Untimed { backend: name.to_owned(), source: why }));
            }
        }
        let team = Team::new(self.threads);
        let patience = self.limit.map_or(PATIENCE, |limit| PATIENCE.min(limit.left(Phase::Kernels) / 4));
        let mut clock = Clock::new(&team, measured.constants, patience);
        let mut checker = Checker::new(&team, &options.registry);
        let mut best: FxHashMap<usize, f64> = FxHashMap::default();
        let (start, mut kept) = (Instant::now(), Instant::now());
        let mut done = 0;
        let size = if self.limit.is_some() { SMALL_BATCH } else { BATCH };
        let (most, least) = match self.limit {
            Some(_) => (FILLED, operand_bytes as fn(&KernelCall) -> usize),
            None => (ALIVE, (|_| 0) as fn(&KernelCall) -> usize),
        };
        let of_job =
            |job: &Job| least(&job.call).max(device_bytes(&job.call, &job.contract, measured.constants));
        let bytes: Vec<usize> = jobs.iter().map(of_job).collect();
        let mut without_memory = BTreeSet::new();
        for batch in batches(&bytes, size, most) {
            let batch = &jobs[batch];
            if self.late(Phase::Kernels) {
                break;
            }
            let end = self.limit.map_or(start + self.budget, |limit| limit.end(Phase::Kernels));
            let mut entries = self.batch(batch, &mut clock, &mut checker, &mut best, end, &mut tally);
            for (at, entry) in entries.iter_mut().enumerate() {
                // A device that others use as well may have enough memory for a kernel alone.
                if entry.state == State::Untimed && batch.len() > 1 {
                    let alone = &batch[at..=at];
                    let again = self.batch(alone, &mut clock, &mut checker, &mut best, end, &mut tally);
                    again.into_iter().for_each(|again| *entry = again);
                }
            }
            for (job, mut entry) in batch.iter().zip(entries) {
                let before = self.stored.table.entries.get(&job.key);
                if let Some(before) = before.filter(|before| before.implementation == entry.implementation) {
                    entry.in_plans = before.in_plans;
                }
                match entry.state {
                    State::Wrong => tally.wrong += 1,
                    State::Untimed => {
                        tally.untimed += 1;
                        without_memory.insert(job.call.op.name);
                    }
                    _ => {
                        tally.timed += 1;
                        ratios.add(&job.key, entry.price() / job.call.seconds.max(f64::MIN_POSITIVE));
                    }
                }
                tally.rough += usize::from(entry.state == State::Rough);
                self.stored.table.entries.insert(job.key.clone(), entry.settled());
            }
            checker.forget();
            clock.forget();
            done += batch.len();
            let goes_on = (self.progress)(Progress { stage: TuningStage::Kernels, done, all: jobs.len() });
            if kept.elapsed() > KEEP || !goes_on {
                self.keep();
                kept = Instant::now();
            }
            if !goes_on {
                return Err(stopped());
            }
        }
        clock.keep();
        self.leave(jobs[done..].iter().chain(&rest), &ratios, &mut tally);
        self.tell(start, &without_memory, &tally);
        self.keep();
        Ok(tally)
    }

    /// Adds notes about kernels that were timed badly or not at all.
    fn tell(&mut self, start: Instant, without_memory: &BTreeSet<&str>, tally: &Tally) {
        if self.limit.is_none() && start.elapsed() > self.budget {
            self.notes.push(format!(
                "tuning used up its {:.0} s before all kernels had all their runs: the last ones had only {}",
                self.budget.as_secs_f64(),
                RUNS[0]
            ));
        }
        if !without_memory.is_empty() {
            let ops: Vec<&str> = without_memory.iter().copied().collect();
            self.notes.push(format!(
                "the device has not enough memory to time some kernels of {}: they keep their estimates, and \
                 `ovolo tune` times them when other programs leave more",
                ops.join(", ")
            ));
        }
        if tally.rough > 0 {
            self.notes.push(format!(
                "{} kernel(s) were timed while other processes used the processors or the threads were badly placed: \
                 `ovolo tune` times them again",
                tally.rough
            ));
        }
    }

    /// Keeps the estimates of kernels that are not timed, because the limited time is used up. They are multiplied by the ratio
    /// of times to estimates that most kernels like them do not exceed: the plan has those kernels whose estimates are the
    /// least, so that it would have all those whose estimates are too small.
    fn leave<'j>(&mut self, jobs: impl Iterator<Item = &'j Job>, ratios: &Ratios, tally: &mut Tally) {
        for job in jobs {
            tally.untimed += 1;
            let known = self.stored.table.entries.get(&job.key);
            if known.is_some_and(|known| known.state != State::Untimed) {
                continue;
            }
            let mut entry = job.estimate(State::Untimed);
            entry.seconds *= ratios.cautious(&job.key).unwrap_or(1.0).max(1.0);
            self.stored.table.entries.insert(job.key.clone(), entry.settled());
        }
        self.keep();
    }

    /// The kernels to be timed; those for the same value are adjacent. Values of the plan come first, and among them those whose
    /// times may gain the plan more for each second of timing.
    fn jobs(
        &mut self,
        source: &Source<'_>,
        options: &Options,
        measured: &Measured,
        chosen: &BTreeSet<String>,
    ) -> (Vec<Job>, Tally) {
        let candidates = self.candidates(source, options, measured);
        let mut best: FxHashMap<usize, f64> = FxHashMap::default();
        for candidate in &candidates {
            let best = best.entry(candidate.rivals).or_insert(f64::INFINITY);
            *best = best.min(candidate.call.seconds);
        }
        let gains = gains(&candidates);
        let in_plan = |key: &String| self.planned.contains(key) || chosen.contains(key);
        let planned: BTreeSet<usize> =
            candidates.iter().filter(|one| in_plan(&one.key)).map(|one| one.rivals).collect();
        // A call may occur in several places, and is hopeless only if it is hopeless in all of them.
        let mut found: BTreeMap<String, (Job, bool)> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        let mut places: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        let bound = if self.limit.is_some() { UNLIKELY } else { HOPELESS };
        for Candidate { call, contract, key, rivals, .. } in candidates {
            if contract.view_of.is_some() {
                continue;
            }
            let hopeless = !call.converts() && call.seconds > bound * best[&rivals] && !chosen.contains(&key);
            places.entry(key.clone()).or_default().insert(rivals);
            match found.get_mut(&key) {
                Some((_, known)) => *known &= hopeless,
                None => {
                    order.push(key.clone());
                    let job = Job { call, contract, key: key.clone(), rivals, gain: 0.0, planned: false };
                    found.insert(key, (job, hopeless));
                }
            }
        }
        let mut tally = Tally { kernels: order.len(), ..Tally::default() };
        let mut jobs = Vec::new();
        for key in order {
            let Some((mut job, hopeless)) = found.remove(&key) else { continue };
            job.gain = places[&key].iter().map(|rivals| gains[rivals]).sum();
            job.planned = places[&key].iter().any(|rivals| planned.contains(rivals));
            let known = job.call.query(self.threads, &job.contract, |query| measured.entry(query));
            match known.map(|entry| entry.state) {
                Some(State::Skipped) if !hopeless => jobs.push(job),
                Some(State::Rough) if self.refine => jobs.push(job),
                Some(State::Untimed) if self.refine || self.limit.is_some() => jobs.push(job),
                Some(State::Skipped) => tally.skipped += 1,
                Some(_) => tally.known += 1,
                None if hopeless => {
                    tally.skipped += 1;
                    self.stored.table.entries.insert(key, job.estimate(State::Skipped).settled());
                }
                None => jobs.push(job),
            }
        }
        let mut values: FxHashMap<usize, Value> = FxHashMap::default();
        for job in &jobs {
            let value = values.entry(job.rivals).or_default();
            value.planned |= job.planned;
            value.gain = value.gain.max(job.gain);
            value.takes += job.takes();
        }
        // Rivals take turns, so they stay in one batch.
        let order = |a: &Job, b: &Job| values[&a.rivals].order(&values[&b.rivals]);
        jobs.sort_by(|a, b| order(a, b).then(a.rivals.cmp(&b.rivals)));
        for job in &mut jobs {
            job.gain = values[&job.rivals].gain;
        }
        let mut numbers: Vec<usize> = values.into_keys().collect();
        numbers.sort_unstable();
        jobs.retain(|job| self.shard.has(numbers.binary_search(&job.rivals).unwrap_or(0)));
        (jobs, tally)
    }

    /// The kernels among which the extraction chooses.
    fn candidates(&self, source: &Source<'_>, options: &Options, measured: &Measured) -> Vec<Candidate> {
        let target = Target { threads: self.threads, ..options.context(source.graph).target() };
        let prices = PriceModel::shipped("fitted", self.machine).among(measured.constants).corrected();
        let contracts = |call: &Call<'_>| target.contract(call);
        let pick = source.saturated.egraph().problem(&prices, self.threads, &contracts);
        let kernels = pick.kernels();
        let rivals = rivals(&kernels, pick.problem.classes.len());
        let mut candidates = Vec::with_capacity(kernels.len());
        for (mut call, rivals) in kernels.into_iter().zip(rivals) {
            let Ok(contract) = call.call(self.threads, |call| contracts(call)) else { continue };
            // The extraction problem counts what must be copied with any memory plan, whereas a run alone
            // copies everything.
            if !contract.parts.is_empty()
                && let Some(seconds) = call.query(self.threads, &contract, |query| prices.seconds(query))
            {
                call.seconds = seconds;
            }
            let (key, known, uncertainty) = call.query(self.threads, &contract, |query| {
                (measured.key(query), measured.entry(query).cloned(), prices.uncertainty(query))
            });
            let timed = known.filter(|entry| matches!(entry.state, State::Timed | State::Rough));
            let belief = match timed {
                Some(entry) => Belief { seconds: entry.price(), uncertainty: TIMED },
                None => Belief {
                    seconds: call.seconds,
                    uncertainty: uncertainty.unwrap_or(UNKNOWN).clamp(TIMED, UNKNOWN),
                },
            };
            candidates.push(Candidate { call, contract, key, rivals, belief });
        }
        candidates
    }

    /// Checks a kernel. Returns its entry, and what is timed if it is right.
    fn admit(
        &self,
        job: &Job,
        clock: &mut Clock<'_>,
        checker: &mut Checker<'_>,
    ) -> (Entry, Option<Runnable>) {
        let mut entry = Entry {
            state: State::Wrong,
            seconds: job.call.seconds,
            samples: 0,
            spread: 0.0,
            in_plans: InPlans::Unknown,
            implementation: job.contract.implementation.clone(),
            error: None,
        };
        // A kernel that cannot be made, although it has a contract, counts as wrong. But a lack of memory says nothing about
        // a kernel.
        let kernel = match job.call.call(self.threads, |call| call.kernel()) {
            Ok(kernel) => kernel,
            Err(OpError::Memory { .. }) => return (Entry { state: State::Untimed, ..entry }, None),
            Err(_) => return (entry, None),
        };
        // SAFETY: the kernel and the contract are the same backend's for this call, for as many threads as the team of
        // the checker and of the clock has.
        let (error, right) = unsafe { checker.check(&job.call, &job.contract, &*kernel) };
        entry.error = error;
        if !right {
            return (entry, None);
        }
        // SAFETY: as above; it is timed by this clock alone.
        match unsafe { clock.prepare(&job.call, &job.contract, kernel) } {
            Ok(runnable) => {
                entry.state = State::Timed;
                return (entry, Some(runnable));
            }
            Err(OpError::Memory { .. }) => entry.state = State::Untimed,
            Err(_) => {}
        }
        (entry, None)
    }

    /// Checks and times kernels in turns.
    fn batch(
        &self,
        jobs: &[Job],
        clock: &mut Clock<'_>,
        checker: &mut Checker<'_>,
        best: &mut FxHashMap<usize, f64>,
        end: Instant,
        tally: &mut Tally,
    ) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(jobs.len());
        let mut active: Vec<(usize, Runnable)> = Vec::new();
        for (at, job) in jobs.iter().enumerate() {
            let (entry, runnable) = self.admit(job, clock, checker);
            active.extend(runnable.map(|runnable| (at, runnable)));
            entries.push(entry);
        }
        for (_, runnable) in &mut active {
            clock.sample(runnable);
        }
        for round in 0..RUNS[2] {
            let hasty = Instant::now() > end;
            active.retain(|(at, runnable)| {
                let samples = &runnable.samples;
                if samples.len() < RUNS[0] {
                    return true;
                }
                let middle = median(samples).0;
                #[allow(clippy::cast_precision_loss)]
                let long = middle * (samples.len() + 1) as f64 > LONG;
                let best = best.get(&jobs[*at].rivals).copied().unwrap_or(f64::INFINITY);
                let wanted = match middle / best {
                    _ if hasty || long => RUNS[0],
                    ratio if ratio <= NEAR[1] => RUNS[2],
                    ratio if ratio <= NEAR[0] || jobs[*at].call.converts() => RUNS[1],
                    _ => RUNS[0],
                };
                samples.len() < wanted
            });
            for (at, runnable) in &mut active {
                let (seconds, peace) = quietest(runnable, clock, end, tally);
                runnable.samples.push(seconds);
                runnable.rough += usize::from(!peace);
                let (mut middle, spread) = median(&runnable.samples);
                let entry = &mut entries[*at];
                let rough = 2 * runnable.rough > runnable.samples.len();
                if rough {
                    // Disturbances make runs slower, so the faster ones are closer to the truth.
                    middle = lower_quartile(&runnable.samples);
                }
                (entry.seconds, entry.spread, entry.samples) = (middle, spread, runnable.samples.len());
                entry.state = if rough { State::Rough } else { State::Timed };
                if round + 1 >= RUNS[0] {
                    let best = best.entry(jobs[*at].rivals).or_insert(f64::INFINITY);
                    *best = best.min(middle);
                }
            }
        }
        entries
    }
}

/// Cuts a list of kernels, which take these bytes of a device, into batches: at most `count` kernels each, which take at
/// most `most` bytes together unless a batch is one kernel.
fn batches(bytes: &[usize], count: usize, most: usize) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut taken = 0;
    for (at, bytes) in bytes.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if batch.len() < count && taken + bytes <= most => {
                batch.end = at + 1;
                taken += bytes;
            }
            _ => {
                batches.push(at..at + 1);
                taken = *bytes;
            }
        }
    }
    batches
}

/// Times a kernel once. If the machine is not idle, it is tried again, and the least disturbed try counts. Returns the
/// seconds, and whether the try was undisturbed.
fn quietest(runnable: &mut Runnable, clock: &mut Clock<'_>, end: Instant, tally: &mut Tally) -> (f64, bool) {
    let mut seconds = f64::INFINITY;
    for _ in 0..TRIES {
        let (tried, disturbed) = clock.sample(runnable);
        if !disturbed {
            return (tried, true);
        }
        seconds = seconds.min(tried);
        tally.disturbed += 1;
        if Instant::now() > end || !clock.rest() {
            break;
        }
    }
    (seconds, false)
}

/// The key of a step's line in the table, and the line's state; `None` if there is no line.
pub(crate) fn key_of(step: &Step, threads: usize, measured: &Measured) -> Option<(String, State)> {
    of_step(step, threads, |query| Some((measured.key(query), measured.entry(query)?.state)))
}

/// The keys of the lines that the table has, or would have, for the steps of a plan.
pub(crate) fn keys_of(plan: &Plan, measured: &Measured) -> BTreeSet<String> {
    plan.steps.iter().map(|step| of_step(step, plan.threads, |query| measured.key(query))).collect()
}

fn of_step<T>(step: &Step, threads: usize, ask: impl FnOnce(&Query<'_>) -> T) -> T {
    let inputs: Vec<&TensorType> = step.input_types.iter().collect();
    let constant: Vec<bool> =
        step.inputs.iter().map(|place| matches!(place.base, Base::Constant(_))).collect();
    let contract = Contract { implementation: step.implementation.clone(), ..Contract::default() };
    let call = Call { op: step.op, attrs: &step.attrs, inputs: &inputs, output: &step.output_type, threads };
    ask(&Query { call, constant: &constant, contract: &contract })
}

/// For each kernel, the number of the value it computes. Classes connected by conversions hold one value in
/// several forms. Kernels of different logical ops are kept apart, because a fused one does more.
fn rivals(kernels: &[KernelCall], classes: usize) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..classes).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    for kernel in kernels.iter().filter(|kernel| kernel.converts()) {
        let (a, b) = (root(&mut parent, kernel.class), root(&mut parent, kernel.children[0]));
        parent[a.max(b)] = a.min(b);
    }
    let mut numbers: FxHashMap<(usize, &str, &str), usize> = FxHashMap::default();
    kernels
        .iter()
        .map(|kernel| {
            let value = root(&mut parent, kernel.class);
            // A conversion has no rivals except those that do exactly the same.
            let op = if kernel.converts() { kernel.op.name } else { "" };
            let next = numbers.len();
            *numbers.entry((value, kernel.op.meaning(), op)).or_insert(next)
        })
        .collect()
}

/// For each value, about how many seconds are gained once where the times of its candidates are known. For a conversion and
/// for a value with one candidate, this is what a form of the graph without it may gain.
fn gains(candidates: &[Candidate]) -> FxHashMap<usize, f64> {
    let mut values: FxHashMap<usize, Vec<Belief>> = FxHashMap::default();
    let mut conversions = BTreeSet::new();
    for candidate in candidates {
        values.entry(candidate.rivals).or_default().push(candidate.belief);
        if candidate.call.converts() {
            conversions.insert(candidate.rivals);
        }
    }
    let gain = |value: usize, beliefs: &[Belief]| match beliefs {
        // A view is no work, so it stays.
        _ if beliefs.iter().any(|one| one.seconds <= 0.0) => 0.0,
        [one] => gain::of_one(*one),
        [one, ..] if conversions.contains(&value) => gain::of_one(*one),
        _ => gain::expected(beliefs),
    };
    values.iter().map(|(value, beliefs)| (*value, gain(*value, beliefs))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_plan_are_timed_first_and_then_those_that_gain_more_for_each_second() {
        let value = |planned: bool, gain: f64, takes: f64| Value { planned, gain, takes };
        let mut values =
            [value(false, 9.0, 1.0), value(true, 2.0, 4.0), value(true, 1.0, 1.0), value(false, 9.0, 0.5)];
        values.sort_by(Value::order);
        let order = values.map(|one| (one.planned, one.gain / one.takes));
        assert_eq!(order, [(true, 1.0), (true, 0.5), (false, 18.0), (false, 9.0)]);
    }

    #[test]
    fn a_batch_has_few_kernels_and_takes_few_bytes() {
        assert_eq!(
            batches(&[0; 5], 2, 9),
            [0..2, 2..4, 4..5],
            "kernels of the host take no bytes of a device"
        );
        assert_eq!(batches(&[4, 4, 4, 20, 1, 8], 48, 9), [0..2, 2..3, 3..4, 4..6]);
        assert!(batches(&[], 48, 9).is_empty());
    }
}

//! Times kernels within whole plans.
//!
//! The time of a kernel depends on what runs before it: a kernel that writes past the caches leaves its
//! result in memory, a residual was computed long ago, and only the processor knows whether weights stay in
//! the last-level cache from one run to the next. Alone, a kernel runs in a guess of that state. So the plan
//! that follows from the times alone is run whole, together with some plans around it; each step is timed,
//! and that time becomes the kernel's price. For kernels that are in none of these plans, the ratio to the
//! time alone is assumed to be that of other kernels of the same op. If that brings such a kernel into the
//! next plan, this plan is run as well.

use super::clock::median;
use super::race::{Rounds, steps};
use super::ratios::Ratios;
use super::tuner::{Progress, Tuner, TuningStage, Within, key_of};
use ovolo::cost::{Entry, InPlans, Measured, State};
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::plan::{Plan, Step, schedule};
use ovolo::stage::Planned;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The plans that are drawn if the caller asks for no others.
pub(super) const NEXT: Within = Within { plans: 12, spread: 1 };
/// The seed of these draws, unlikely to be chosen by a user.
pub(super) const SEED: u64 = 0x1_0000_0000;
/// The most bytes of constants of plans that are run in turns.
const BYTES: usize = 1 << 30;
/// The time after which no further plans are run, by their estimates, if the caller asks for none. The first
/// plan always runs. If the time is up, the plan may keep kernels that were not timed within one.
pub(super) const BUDGET: Duration = Duration::from_secs(8);

/// The table lines of a plan's kernels that have no time within plans but could have one. The steps of a
/// device are timed on the device.
pub(super) fn lacking(plan: &Plan, measured: &Measured) -> BTreeSet<String> {
    if plan.steps.iter().any(|step| schedule::device(step).is_some()) {
        return BTreeSet::new();
    }
    let whole = plan.steps.iter().filter(|step| is_whole(step));
    let keys = whole.filter_map(|step| key_of(step, plan.threads, measured));
    keys.map(|(key, _)| key).filter(|key| measured.table.entries.get(key).is_some_and(is_alone)).collect()
}

/// Whether a step does the same work as its kernel alone. It does not if a value already lies in its result
/// or is copied there first; plans price such steps from the time of a whole run.
fn is_whole(step: &Step) -> bool {
    step.joined.is_empty() && step.copied.is_none()
}

/// Whether the time within plans of all kernels of a plan is known or estimated. A plan that was chosen by
/// such times once stays as it is.
pub(super) fn is_known(plan: &Plan, measured: &Measured) -> bool {
    let known =
        |key: &String| measured.table.entries.get(key).is_none_or(|entry| entry.in_plans != InPlans::Unknown);
    lacking(plan, measured).iter().all(known)
}

/// Whether a kernel was timed, but not within a plan.
fn is_alone(entry: &Entry) -> bool {
    matches!(entry.state, State::Timed | State::Rough) && !matches!(entry.in_plans, InPlans::Timed(_))
}

/// The plans around a model's plan that were run so far.
pub(super) struct Around {
    start: Instant,
    budget: Duration,
    /// Whether even the first plan is only run if there is time.
    strict: bool,
    /// A plan that is run with all others, and its first time; it makes the times of different runs comparable.
    anchor: Option<(Planned, f64)>,
    ratios: Ratios,
}

impl Around {
    /// Returns a value without plans. The time budget starts now.
    pub fn new(budget: Duration, strict: bool) -> Self {
        Self { start: Instant::now(), budget, strict, anchor: None, ratios: Ratios::default() }
    }

    /// Whether the time budget is used up.
    pub fn late(&self) -> bool {
        self.start.elapsed() > self.budget
    }

    /// The time that is left when a plan has been run; `None` if there is no time to run it.
    pub fn left_after(&self, one: &Planned) -> Option<Duration> {
        let takes = Rounds::STEPS.seconds(&one.chosen.program, &one.plan);
        // An estimate may be greater than all durations.
        let takes = Duration::try_from_secs_f64(takes).unwrap_or(Duration::MAX);
        let left = self.budget.saturating_sub(self.start.elapsed());
        if self.strict { left.checked_sub(takes) } else { Some(left.saturating_sub(takes)) }
    }

    /// Runs plans, and keeps for each kernel without a time within plans the median over these plans of its
    /// mean time in one. Returns the number of kernels that got a time. The first plan becomes the anchor if
    /// there is none.
    ///
    /// # Errors
    /// An error if a plan cannot be loaded or run, or if tuning was stopped.
    pub fn time(
        &mut self,
        tuner: &mut Tuner<'_>,
        graph: &Graph,
        plans: Vec<Planned>,
    ) -> Result<usize, Error> {
        let measured = tuner.measured().for_graph(graph);
        let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut plans: VecDeque<Planned> =
            plans.into_iter().filter(|one| !lacking(&one.plan, &measured).is_empty()).collect();
        let (all, mut stopped) = (plans.len(), false);
        while plans.front().and_then(|one| self.left_after(one)).is_some()
            && (times.is_empty() || !self.late())
        {
            stopped = !(tuner.progress)(Progress { stage: TuningStage::Plans, done: all - plans.len(), all });
            if stopped {
                break;
            }
            let left = self.budget.saturating_sub(self.start.elapsed());
            let mut turn: Vec<_> =
                self.anchor.iter().map(|(planned, _)| (&planned.chosen.program, &planned.plan)).collect();
            let (mut new, mut bytes) = (0, 0);
            let takes = |program: &Graph, plan: &Plan| Rounds::STEPS.seconds(program, plan);
            let mut seconds: f64 = turn.iter().map(|(program, plan)| takes(program, plan)).sum();
            for one in &plans {
                bytes += one.chosen.program.constant_bytes();
                seconds += takes(&one.chosen.program, &one.plan);
                if new > NEXT.plans || new > 0 && (bytes > BYTES || seconds > left.as_secs_f64()) {
                    break;
                }
                turn.push((&one.chosen.program, &one.plan));
                new += 1;
            }
            let rounds = Rounds::STEPS.within(left);
            let took = steps(&turn, &tuner.backends, rounds)?;
            let whole: f64 = took[0].iter().sum();
            let scale = self.anchor.as_ref().map_or(1.0, |(_, seconds)| seconds / whole);
            for ((_, plan), took) in turn.iter().zip(&took) {
                for (key, seconds) in means(plan, took, &measured) {
                    times.entry(key).or_default().push(seconds * scale);
                }
            }
            let mut done = plans.drain(..new);
            if self.anchor.is_none() {
                self.anchor = done.next().map(|planned| (planned, whole));
            }
        }
        if all > 0 && !stopped {
            stopped = !(tuner.progress)(Progress { stage: TuningStage::Plans, done: all - plans.len(), all });
        }
        let mut count = 0;
        for (key, seconds) in times {
            let Some(entry) = tuner.stored.table.entries.get_mut(&key) else { continue };
            if is_alone(entry) {
                let seconds = median(&seconds).0;
                self.ratios.add(&key, seconds / entry.seconds);
                entry.in_plans = InPlans::Timed(seconds);
                *entry = entry.settled();
                count += 1;
            }
        }
        if stopped {
            tuner.keep();
            return Err(super::tuner::stopped());
        }
        Ok(count)
    }

    /// Keeps estimates for kernels that were asked for, are in no plan that was run, and had no estimate yet.
    /// Returns whether there were any.
    pub fn guess(&self, tuner: &mut Tuner<'_>, asked: &BTreeSet<String>) -> bool {
        let mut any = false;
        for key in asked {
            if let Some(entry) = tuner.stored.table.entries.get_mut(key)
                && is_alone(entry)
                && entry.in_plans == InPlans::Unknown
                && let Some(ratio) = self.ratios.typical(key)
            {
                entry.in_plans = InPlans::Likely(entry.seconds * ratio);
                *entry = entry.settled();
                any = true;
            }
        }
        tuner.keep();
        any
    }
}

/// The mean seconds of each kernel of a plan, by its line in the table.
#[allow(clippy::cast_precision_loss)]
fn means(plan: &Plan, steps: &[f64], measured: &Measured) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for (step, seconds) in plan.steps.iter().zip(steps).filter(|(step, _)| is_whole(step)) {
        if let Some((key, _)) = key_of(step, plan.threads, measured) {
            let (sum, count) = sums.entry(key).or_default();
            (*sum, *count) = (*sum + seconds, *count + 1);
        }
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count as f64)).collect()
}

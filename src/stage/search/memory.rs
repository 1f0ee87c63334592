//! Time against memory: the fastest plan within limits, and the plans from the fastest to the smallest.
//!
//! The peak of a plan is not a sum over its kernels, so no single extraction can compute it. The search has three
//! steps. First it forbids the kernels that no plan within the limit can run, which loses no solution. If the plan of
//! the best remaining program is still too large, it also forbids kernels at the peak that leave no room for the
//! other live buffers. Finally every byte gets a price, which rises until a plan fits. Every plan may keep within the
//! limit by copies; if one does, the search also looks for plans without them. The result is a plan within the limit,
//! but not always the fastest; it is proven if the first step was enough. The work of all steps is counted. If it
//! reaches its budget (`search/effort.rs`), the search ends and reports that.
//!
//! Each limit applies to the arena of one device. If memory is weighed against time, the memory is the host's arena.
//! The time that is proven for each limit then gives a bound of the sum: a plan between two limits is not faster than
//! the bound of the larger limit, and its arena is not smaller than the smaller limit.

use super::NOTHING;
use super::effort::WORK;
use super::trial::{Chooser, Trial};
use crate::egraph::Need;
use crate::error::Error;
use crate::extract::Problem;
use crate::memory::Limit;
use crate::op::Call;
use crate::plan::{Placed, Plan};
use crate::stage::objective::Objective;
use crate::tensor::Device;
use std::cell::RefCell;
use std::fmt::Write;

/// The largest relative difference between sums of the same numbers in different orders.
const ROUNDING: f64 = 1e-9;

/// Returns the fastest plan that was found within limits.
pub(in crate::stage) fn within(chooser: &Chooser<'_>, limit: &Limit) -> Result<Trial, Error> {
    let fastest = fastest(chooser)?;
    if fastest.plan.above(limit).is_none() {
        return Ok(fastest);
    }
    let search = Search::new(chooser, &fastest);
    search.within(fastest, limit, &mut |_, _| {})
}

/// Returns the plan within limits with the least sum of time and memory, where the host's arena costs `worth`
/// milliseconds per MiB.
pub(in crate::stage) fn cheapest(
    chooser: &Chooser<'_>,
    worth: f64,
    limit: &Limit,
) -> Result<(Trial, Objective), Error> {
    let fastest = fastest(chooser)?;
    let search = Search::new(chooser, &fastest);
    let mut trials = search.curve(fastest, Device::Host, limit, &mut |_, _| {})?;
    let account = |trial: &Trial| {
        let (seconds, arena) = (trial.extraction.cost, trial.plan.arena);
        Objective { seconds, arena, worth, bound: 0.0 }
    };
    let last = trials.pop().ok_or_else(nothing)?;
    let best = trials
        .into_iter()
        .fold(last, |best, trial| if account(&trial).sum() < account(&best).sum() { trial } else { best });
    let objective = account(&best);
    let bound = search.bound(worth, limit.of(Device::Host).unwrap_or(usize::MAX));
    Ok((best, Objective { bound: bound.min(objective.sum()), ..objective }))
}

/// Returns plans, the fastest within limits first. Each is faster than all plans with a smaller arena on the device.
pub(in crate::stage) fn curve(
    chooser: &Chooser<'_>,
    device: Device,
    limit: &Limit,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Trial>, Error> {
    let fastest = fastest(chooser)?;
    Search::new(chooser, &fastest).curve(fastest, device, limit, progress)
}

/// Returns the fastest plan, regardless of its memory.
fn fastest(chooser: &Chooser<'_>) -> Result<Trial, Error> {
    chooser.best(chooser.problem, &Limit::default())?.ok_or_else(nothing)
}

fn nothing() -> Error {
    Error::Extract(NOTHING.into())
}

/// Returns the message for a plan that is too large, with the buffers that are live at its peak.
pub fn too_large(plan: &Plan, device: Device, limit: usize) -> String {
    let live = |step: &usize| live(plan, device, *step).map(|buffer| buffer.size).sum::<usize>();
    let peak = (0..plan.steps.len()).max_by_key(|step| (live(step), std::cmp::Reverse(*step))).unwrap_or(0);
    let of = if plan.devices.is_empty() { String::new() } else { format!(" of {device}") };
    let mut text = format!(
        "the smallest plan that was found needs {} bytes{of}, and {limit} are allowed",
        plan.arena_of(device)
    );
    let Some(step) = plan.steps.get(peak) else { return text };
    let _ = write!(text, "\nat step `{}` ({}) these stand in the way:", step.name, step.op);
    let mut buffers: Vec<&Placed> = self::live(plan, device, peak).collect();
    buffers.sort_by_key(|buffer| (std::cmp::Reverse(buffer.size), buffer.offset));
    for buffer in buffers {
        let _ = write!(text, "\n  {:>12} bytes: {}", buffer.size, plan.occupants(buffer, peak));
    }
    text.push_str("\nallow more, or give rules and kernels that need less there");
    text
}

/// Returns the buffers of a device that are live while a step runs.
fn live(plan: &Plan, device: Device, step: usize) -> impl Iterator<Item = &Placed> {
    plan.buffers
        .iter()
        .filter(move |buffer| buffer.device == device && (buffer.lower..buffer.upper).contains(&step))
}

struct Search<'a, 'b> {
    chooser: &'a Chooser<'b>,
    needs: Vec<Vec<Need>>,
    /// The smallest plan so far, compared by the bytes above the requested limits.
    least: RefCell<Plan>,
    /// Sizes of the host's arena in bytes, each with a lower bound of the seconds of all plans within it; the bound
    /// is infinite if there is no plan.
    levels: RefCell<Vec<(usize, f64)>>,
}

/// The number of different prices that are tried for a limit.
const ROUNDS: usize = 24;
/// The first price of a byte, such that a whole arena costs this share of the plan's time, and the factor of each
/// following price.
const PRICE: (f64, f64) = (1.0 / 64.0, 4.0);
/// The highest price, as such a share. Here time no longer matters, so a higher price would find the same plans.
const DEAREST: f64 = 4096.0;
/// The unit in which work is reported.
const MILLION: usize = 1_000_000;
/// The largest number of points of a curve.
const POINTS: usize = 64;

impl<'a, 'b> Search<'a, 'b> {
    /// Returns a search that starts from the fastest plan.
    fn new(chooser: &'a Chooser<'b>, fastest: &Trial) -> Self {
        let contracts = |call: &Call<'_>| chooser.target.contract(call);
        let needs = chooser.pick.needs(chooser.target.threads, &contracts);
        chooser.effort.begin(&fastest.extraction);
        let levels = RefCell::new(vec![(usize::MAX, fastest.extraction.bound)]);
        Self { chooser, needs, least: RefCell::new(fastest.plan.clone()), levels }
    }

    /// Returns plans, the fastest within limits first. Each is faster than all plans with a smaller arena on the
    /// device.
    fn curve(
        &self,
        fastest: Trial,
        device: Device,
        limit: &Limit,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        let first = match fastest.plan.above(limit) {
            None => fastest,
            Some(_) => self.within(fastest, limit, progress)?,
        };
        self.down(first, device, 0, limit, progress)
    }

    /// Returns a plan within limits: a fast one if possible, otherwise one that is found by making plans smaller and
    /// smaller, device by device.
    fn within(
        &self,
        fastest: Trial,
        limit: &Limit,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Trial, Error> {
        if let Some(trial) = self.fit(limit)? {
            return Ok(trial);
        }
        let (mut trial, mut kept) = (fastest, Limit::default());
        for (device, most) in limit.iter() {
            trial = self.down(trial, device, most, &kept, progress)?.pop().ok_or_else(nothing)?;
            if trial.plan.arena_of(device) > most {
                return Err(self.too_large(trial.plan, device, most));
            }
            kept = kept.with(device, most);
        }
        Ok(trial)
    }

    /// Returns the error that no plan is within a limit, with the live buffers of the smallest plan that was found.
    fn too_large(&self, found: Plan, device: Device, limit: usize) -> Error {
        let least = self.least.borrow();
        let plan = if least.arena_of(device) < found.arena_of(device) { &*least } else { &found };
        let mut text = too_large(plan, device, limit);
        if self.chooser.effort.is_spent() {
            let _ = write!(
                text,
                "\nthe search ended at its limit of work ({WORK} steps): there may be a smaller plan"
            );
        }
        Error::Plan(text)
    }

    /// Returns plans with smaller and smaller arenas on a device, until one is within the limit, or no smaller one
    /// within the other limits is found.
    fn down(
        &self,
        first: Trial,
        device: Device,
        limit: usize,
        others: &Limit,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        // If each plan takes much work, it is not possible to find all of them.
        let hasty = self.chooser.effort.is_hasty();
        let least_step = if hasty { first.plan.arena_of(device) / POINTS } else { 0 };
        let mut trials = vec![first];
        while let Some(arena) = trials.last().map(|trial| trial.plan.arena_of(device))
            && arena > limit
            && trials.len() < POINTS
        {
            if limit == 0 {
                progress(self.chooser.effort.spent() / MILLION, WORK / MILLION);
            }
            let next = (arena - 1).min((arena - least_step).max(limit));
            let Some(next) = self.fit(&others.clone().with(device, next))? else { break };
            while trials.last().is_some_and(|last| last.extraction.cost >= next.extraction.cost) {
                trials.pop();
            }
            trials.push(next);
        }
        if limit == 0 {
            // The search is over, so progress is complete even if some work is left.
            let done = (self.chooser.effort.spent() / MILLION).max(1);
            progress(done, done);
        }
        Ok(trials)
    }

    /// Returns a lower bound of the sum of time and memory for plans whose host's arena has at most `most` bytes.
    fn bound(&self, worth: f64, most: usize) -> f64 {
        let mut levels = self.levels.borrow().clone();
        levels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
        let least = self.least_arena();
        let (mut bound, mut seconds) = (f64::INFINITY, 0.0_f64);
        for (at, (limit, faster)) in levels.iter().enumerate() {
            seconds = seconds.max(*faster);
            // The smallest plan within this limit but above the next one.
            let smallest = levels.get(at + 1).map_or(0, |(next, _)| next.saturating_add(1)).max(least);
            if smallest <= (*limit).min(most) {
                bound = bound.min(seconds + Objective::memory_of(smallest, worth));
            }
        }
        bound
    }

    /// Returns a lower bound of the host's arena in bytes for all choices: the kernels that fit into less cannot
    /// compute the outputs.
    fn least_arena(&self) -> usize {
        let host = self.needs.iter().flatten().filter(|need| need.device == Device::Host);
        let mut known: Vec<usize> = host.map(|need| need.least).chain([0]).collect();
        known.sort_unstable();
        known.dedup();
        let enough = known.partition_point(|bytes| !self.runs_within(*bytes));
        known.get(enough).copied().unwrap_or(0)
    }

    /// Returns whether kernels that need at most `bytes` bytes of the host can compute the outputs.
    fn runs_within(&self, bytes: usize) -> bool {
        let Problem { classes, roots, .. } = &self.chooser.problem;
        let mut runs = vec![false; classes.len()];
        // The candidates that read each class, and for each candidate the number of operands that are not computed
        // yet.
        let mut readers: Vec<Vec<(usize, usize)>> = vec![Vec::new(); classes.len()];
        let mut missing: Vec<Vec<usize>> = Vec::with_capacity(classes.len());
        let mut ready = Vec::new();
        for (class, needs) in self.needs.iter().enumerate() {
            let mut counts = Vec::with_capacity(needs.len());
            for (place, (node, need)) in classes[class].nodes.iter().zip(needs).enumerate() {
                let allowed = need.device != Device::Host || need.least <= bytes;
                let allowed = allowed && node.cost.is_finite();
                counts.push(if allowed { node.children.len() } else { usize::MAX });
                if allowed {
                    node.children.iter().for_each(|child| readers[child.index()].push((class, place)));
                    if node.children.is_empty() {
                        ready.push(class);
                    }
                }
            }
            missing.push(counts);
        }
        while let Some(class) = ready.pop() {
            if std::mem::replace(&mut runs[class], true) {
                continue;
            }
            for (reader, place) in &readers[class] {
                let left = &mut missing[*reader][*place];
                *left -= 1;
                if *left == 0 {
                    ready.push(*reader);
                }
            }
        }
        roots.iter().all(|root| runs[root.index()])
    }

    /// Returns a fast plan within a limit, if one is found.
    fn fit(&self, limit: &Limit) -> Result<Option<Trial>, Error> {
        let with_copies = self.search(limit, limit)?;
        let copies = |trial: &Trial| trial.plan.steps.iter().map(|step| step.copies).sum::<f64>();
        if with_copies.as_ref().is_some_and(|trial| copies(trial) == 0.0) {
            return Ok(with_copies);
        }
        // Another kernel may be cheaper than the copies.
        let without = self.search(limit, &Limit::default())?;
        Ok(match (with_copies, without) {
            (Some(a), Some(b)) => Some(if b.extraction.cost < a.extraction.cost { b } else { a }),
            (a, b) => a.or(b),
        })
    }

    /// Returns a fast plan within a limit, if one is found. Programs are planned for the limits `planned`, which are
    /// the same or empty.
    fn search(&self, limit: &Limit, planned: &Limit) -> Result<Option<Trial>, Error> {
        // A kernel that alone needs more than the limit cannot be part of a plan within it.
        let mut allowed = self.chooser.problem.clone();
        self.forbid(&mut allowed, |_, need| limit.of(need.device).is_some_and(|most| need.least > most));
        let (mut problem, mut price, mut bound) = (allowed.clone(), 0.0, None);
        for _ in 0..ROUNDS {
            let Some(mut trial) = self.chooser.best(&self.priced(&problem, limit, price), planned)? else {
                let spent = self.chooser.effort.is_spent();
                if bound.is_none() && !spent {
                    self.level(limit, f64::INFINITY);
                }
                if price > 0.0 || bound.is_none() || spent {
                    return Ok(None);
                }
                // Too many kernels were forbidden, so try prices only.
                problem = allowed.clone();
                price = f64::MIN_POSITIVE;
                continue;
            };
            if bound.is_none() {
                self.level(limit, trial.extraction.bound);
            }
            let bound = *bound.get_or_insert(trial.extraction.bound);
            let bytes = |plan: &Plan| limit.iter().map(|(device, _)| plan.arena_of(device)).sum::<usize>();
            if bytes(&trial.plan) < bytes(&self.least.borrow()) {
                *self.least.borrow_mut() = trial.plan.clone();
            }
            if trial.plan.above(limit).is_none() {
                trial.extraction.bound = bound;
                trial.extraction.proven &= trial.extraction.cost <= bound * (1.0 + ROUNDING);
                trial.extraction.settle();
                return Ok(Some(trial));
            }
            if price == 0.0 && self.make_room(&trial, limit, &mut problem) {
                continue;
            }
            #[allow(clippy::cast_precision_loss)]
            let unit = trial.extraction.cost / bytes(&trial.plan).max(1) as f64;
            price = if price < PRICE.0 * unit { PRICE.0 * unit } else { price * PRICE.1 };
            if price > DEAREST * unit {
                break;
            }
        }
        Ok(None)
    }

    /// Records a lower bound of the time of all plans within a limit.
    fn level(&self, limit: &Limit, seconds: f64) {
        self.levels.borrow_mut().push((limit.of(Device::Host).unwrap_or(usize::MAX), seconds));
    }

    fn forbid(&self, problem: &mut Problem, too_much: impl Fn(usize, &Need) -> bool) -> bool {
        let mut any = false;
        for (class, needs) in self.needs.iter().enumerate() {
            for (node, need) in problem.classes[class].nodes.iter_mut().zip(needs) {
                if node.cost.is_finite() && too_much(class, need) {
                    node.cost = f64::INFINITY;
                    any = true;
                }
            }
        }
        any
    }

    /// For a plan above the limit, forbids the kernels at its peak that leave no room for the other live buffers.
    /// Returns whether there were any.
    fn make_room(&self, trial: &Trial, limit: &Limit, problem: &mut Problem) -> bool {
        let mut room = vec![usize::MAX; self.needs.len()];
        for (at, step) in trial.plan.steps.iter().enumerate() {
            let device = step.output_type.device;
            let Some(limit) = limit.of(device) else { continue };
            let live: usize = live(&trial.plan, device, at).map(|buffer| buffer.size).sum();
            let Some((class, place)) = trial.candidate(step.node).filter(|_| live > limit) else { continue };
            let beside = live.saturating_sub(self.needs[class][place].least);
            let left = limit.saturating_sub(beside);
            let nodes = problem.classes[class].nodes.iter().zip(&self.needs[class]);
            if nodes.filter(|(node, _)| node.cost.is_finite()).any(|(_, need)| need.least <= left) {
                room[class] = room[class].min(left);
            }
        }
        self.forbid(problem, |class, need| need.least > room[class])
    }

    /// Returns the problem with a price for every byte of results and scratch on devices with limits.
    #[allow(clippy::cast_precision_loss)]
    fn priced(&self, problem: &Problem, limit: &Limit, price: f64) -> Problem {
        let mut priced = problem.clone();
        for (class, needs) in priced.classes.iter_mut().zip(&self.needs) {
            for (node, need) in class.nodes.iter_mut().zip(needs) {
                if limit.of(need.device).is_some() {
                    node.cost += price * need.own as f64;
                }
            }
        }
        priced
    }
}

//! Time against memory: the fastest plan that fits, and the plans from the fastest to the smallest.
//!
//! The peak of a plan is no sum over its kernels, so no single extraction knows it. A limit forbids the
//! kernels that no plan within it can run, which loses nothing; where the plan of the best that is left is
//! still too large, kernels at its peak that leave no room for what lies beside them are forbidden too, and
//! then every byte gets a price that rises until a plan fits. Every plan on the way may keep to the limit by
//! copies; where one does, plans without them are looked for as well. What is found is a plan that fits, not
//! always the fastest; it is proven where the first step was enough. The work of all steps is counted, and where
//! it is as much as is allowed (`search/effort.rs`) the search ends and says so.
//!
//! Each limit is of the arena of one device. Where memory is weighed against time, what is weighed is the host's
//! arena, and what each step has proven of time becomes a bound on the sum: no plan between two limits is faster
//! than the bound of the larger, or smaller than the smaller allows.

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

/// Sums of the same numbers in another order.
const ROUNDING: f64 = 1e-9;

/// The fastest plan that was found within limits.
pub(in crate::stage) fn within(chooser: &Chooser<'_>, limit: &Limit) -> Result<Trial, Error> {
    let fastest = fastest(chooser)?;
    if fastest.plan.above(limit).is_none() {
        return Ok(fastest);
    }
    let search = Search::new(chooser, &fastest);
    search.within(fastest, limit, &mut |_, _| {})
}

/// The plan for which time and the host's memory together cost the least, at so many milliseconds a mebibyte; of
/// those within limits.
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

/// Plans each faster than all that are smaller by the arena of a device, the fastest within limits first.
pub(in crate::stage) fn curve(
    chooser: &Chooser<'_>,
    device: Device,
    limit: &Limit,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Trial>, Error> {
    let fastest = fastest(chooser)?;
    Search::new(chooser, &fastest).curve(fastest, device, limit, progress)
}

/// The fastest plan, whatever memory it takes.
fn fastest(chooser: &Chooser<'_>) -> Result<Trial, Error> {
    chooser.best(chooser.problem, &Limit::default())?.ok_or_else(nothing)
}

fn nothing() -> Error {
    Error::NothingRuns
}

/// What is wrong with a plan that is too large: what is live at its peak.
pub(crate) fn too_large(plan: &Plan, device: Device, limit: usize) -> String {
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

/// The buffers of a device that are live while a step runs.
fn live(plan: &Plan, device: Device, step: usize) -> impl Iterator<Item = &Placed> {
    plan.buffers
        .iter()
        .filter(move |buffer| buffer.device == device && (buffer.lower..buffer.upper).contains(&step))
}

struct Search<'a, 'b> {
    chooser: &'a Chooser<'b>,
    needs: Vec<Vec<Need>>,
    /// The smallest plan that was seen, by what is above the limits that were asked for.
    least: RefCell<Plan>,
    /// Bytes of the host's arena, and the seconds that no plan within them is faster than: infinite where there
    /// is none.
    levels: RefCell<Vec<(usize, f64)>>,
}

/// How often a limit is tried with other prices.
const ROUNDS: usize = 24;
/// The price of a byte at first, as a share of the time that an arena of them takes, and what it is then
/// multiplied by.
const PRICE: (f64, f64) = (1.0 / 64.0, 4.0);
/// The price from which on time is of no account, as such a share: a dearer one finds nothing else.
const DEAREST: f64 = 4096.0;
/// What work is told in.
const MILLION: usize = 1_000_000;
/// The most points of a curve.
const POINTS: usize = 64;

impl<'a, 'b> Search<'a, 'b> {
    /// A search that begins with the fastest plan.
    fn new(chooser: &'a Chooser<'b>, fastest: &Trial) -> Self {
        let contracts = |call: &Call<'_>| chooser.target.contract(call);
        let needs = chooser.pick.needs(chooser.target.threads, &contracts);
        chooser.effort.begin(&fastest.extraction);
        let levels = RefCell::new(vec![(usize::MAX, fastest.extraction.bound)]);
        Self { chooser, needs, least: RefCell::new(fastest.plan.clone()), levels }
    }

    /// Plans each faster than all that are smaller by the arena of a device, the fastest within limits first.
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

    /// A plan within limits: a fast one, or else the one that is reached by ever smaller plans, device by device.
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

    /// Why no plan is within a limit: what stands in the way in the smallest that was found.
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
        Error::TooLarge { device, limit, why: text }
    }

    /// Plans ever smaller by the arena of a device, from one on, until one is within the limit or none smaller is
    /// found that keeps to the other limits.
    fn down(
        &self,
        first: Trial,
        device: Device,
        limit: usize,
        others: &Limit,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        // Where each plan is a long way to the next one, all of them are not to be had.
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
            // It is over, however much work is left.
            let done = (self.chooser.effort.spent() / MILLION).max(1);
            progress(done, done);
        }
        Ok(trials)
    }

    /// No plan whose host's arena has at most so many bytes has a lower sum of time and memory.
    fn bound(&self, worth: f64, most: usize) -> f64 {
        let mut levels = self.levels.borrow().clone();
        levels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
        let least = self.least_arena();
        let (mut bound, mut seconds) = (f64::INFINITY, 0.0_f64);
        for (at, (limit, faster)) in levels.iter().enumerate() {
            seconds = seconds.max(*faster);
            // The smallest plan that is within this limit and above the next.
            let smallest = levels.get(at + 1).map_or(0, |(next, _)| next.saturating_add(1)).max(least);
            if smallest <= (*limit).min(most) {
                bound = bound.min(seconds + Objective::memory_of(smallest, worth));
            }
        }
        bound
    }

    /// Bytes that the host's arena has at the least, whatever is chosen: with less, the kernels that are left
    /// compute no outputs.
    fn least_arena(&self) -> usize {
        let host = self.needs.iter().flatten().filter(|need| need.device == Device::Host);
        let mut known: Vec<usize> = host.map(|need| need.least).chain([0]).collect();
        known.sort_unstable();
        known.dedup();
        let enough = known.partition_point(|bytes| !self.runs_within(*bytes));
        known.get(enough).copied().unwrap_or(0)
    }

    /// Whether kernels that need at most so many bytes of the host compute the outputs.
    fn runs_within(&self, bytes: usize) -> bool {
        let Problem { classes, roots, .. } = &self.chooser.problem;
        let mut runs = vec![false; classes.len()];
        // The candidates that read each class, and how many of a candidate's operands nothing computes yet.
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

    /// A fast plan within a limit, if one is found.
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

    /// A fast plan within a limit, if one is found, of those that are planned for that limit or for none.
    fn search(&self, limit: &Limit, planned: &Limit) -> Result<Option<Trial>, Error> {
        // No plan within the limit runs a kernel that needs more by itself.
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
                // Too much was forbidden: prices alone, then.
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

    /// Notes what no plan within a limit is faster than.
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

    /// Forbids, where a plan is above the limit, the kernels that leave no room for what lies beside
    /// them; says whether there were any.
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

    /// The problem with a price for every byte of results and scratch on a device that has a limit.
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

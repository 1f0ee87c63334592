//! Time against memory: the fastest plan that fits, and the plans from the fastest to the smallest.
//!
//! The peak of a plan is no sum over its kernels, so no single extraction knows it. A limit forbids the
//! kernels that no plan within it can run, which loses nothing; where the plan of the best that is left is
//! still too large, kernels at its peak that leave no room for what lies beside them are forbidden too, and
//! then every byte gets a price that rises until a plan fits. Every plan on the way may keep to the limit by
//! copies; where one does, plans without them are looked for as well. What is found is a plan that fits, not
//! always the fastest; it is proven where the first step was enough. The work of all steps is counted, and where
//! it is as much as is allowed ([`super::effort`]) the search ends and says so.

use super::NOTHING;
use super::effort::WORK;
use super::trial::{Chooser, Trial};
use crate::contract::Call;
use crate::egraph::Need;
use crate::error::Error;
use crate::extract::Problem;
use crate::plan::{Placed, Plan};
use std::cell::RefCell;
use std::fmt::Write;

/// A plan on the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The estimate of one run, in seconds.
    pub seconds: f64,
    /// Bytes of the arena.
    pub arena: usize,
    /// Whether no plan of the e-graph within these bytes is faster by the cost model.
    pub proven: bool,
}

/// The plans from the fastest to the smallest.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Each faster than all that are smaller, the fastest first.
    pub points: Vec<Point>,
    /// Whether the search went to its end. Where its work was limited there may be more plans.
    pub complete: bool,
}

impl Point {
    pub(super) fn of(trial: &Trial) -> Self {
        let Trial { extraction, plan, .. } = trial;
        Self { seconds: extraction.cost, arena: plan.arena, proven: extraction.proven }
    }
}

/// The fastest plan that was found within a limit.
pub(super) fn within(chooser: &Chooser<'_>, limit: usize) -> Result<Trial, Error> {
    let fastest = fastest(chooser)?;
    if fastest.plan.arena <= limit {
        return Ok(fastest);
    }
    let search = Search::new(chooser, &fastest);
    if let Some(trial) = search.fit(limit)? {
        return Ok(trial);
    }
    let least = search.down(fastest, limit, &mut |_, _| {})?.pop().ok_or_else(nothing)?;
    if least.plan.arena <= limit { Ok(least) } else { Err(search.too_large(least.plan, limit)) }
}

/// The plan for which time and memory together cost the least, at so many milliseconds a mebibyte; of
/// those within a limit.
pub(super) fn cheapest(chooser: &Chooser<'_>, worth: f64, limit: Option<usize>) -> Result<Trial, Error> {
    #[allow(clippy::cast_precision_loss)]
    let price =
        |trial: &Trial| trial.extraction.cost + worth * 1e-3 * trial.plan.arena as f64 / f64::from(1 << 20);
    let mut trials = curve(chooser, limit, &mut |_, _| {})?;
    let least = trials.pop().ok_or_else(nothing)?;
    Ok(trials.into_iter().fold(least, |best, trial| if price(&trial) < price(&best) { trial } else { best }))
}

/// Plans each faster than all that are smaller, the fastest within a limit first.
pub(super) fn curve(
    chooser: &Chooser<'_>,
    limit: Option<usize>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Trial>, Error> {
    let fastest = fastest(chooser)?;
    let search = Search::new(chooser, &fastest);
    let first = match limit.filter(|limit| fastest.plan.arena > *limit) {
        None => fastest,
        Some(limit) => match search.fit(limit)? {
            Some(trial) => trial,
            None => {
                let least = search.down(fastest, limit, progress)?.pop().ok_or_else(nothing)?;
                if least.plan.arena > limit {
                    return Err(search.too_large(least.plan, limit));
                }
                least
            }
        },
    };
    search.down(first, 0, progress)
}

/// The fastest plan, whatever memory it takes.
fn fastest(chooser: &Chooser<'_>) -> Result<Trial, Error> {
    chooser.best(&chooser.pick.problem, None)?.ok_or_else(nothing)
}

fn nothing() -> Error {
    Error::Extract(NOTHING.into())
}

/// What is wrong with a plan that is too large: what is live at its peak.
pub fn too_large(plan: &Plan, limit: usize) -> String {
    let live = |step: &usize| live(plan, *step).map(|buffer| buffer.size).sum::<usize>();
    let peak = (0..plan.steps.len()).max_by_key(|step| (live(step), std::cmp::Reverse(*step))).unwrap_or(0);
    let mut text =
        format!("the smallest plan that was found needs {} bytes, and {limit} are allowed", plan.arena);
    let Some(step) = plan.steps.get(peak) else { return text };
    let _ = write!(text, "\nat step `{}` ({}) these stand in the way:", step.name, step.op);
    let mut buffers: Vec<&Placed> = self::live(plan, peak).collect();
    buffers.sort_by_key(|buffer| (std::cmp::Reverse(buffer.size), buffer.offset));
    for buffer in buffers {
        let _ = write!(text, "\n  {:>12} bytes: {}", buffer.size, plan.occupants(buffer, peak));
    }
    text.push_str("\nallow more, or give rules and kernels that need less there");
    text
}

/// The buffers that are live while a step runs.
fn live(plan: &Plan, step: usize) -> impl Iterator<Item = &Placed> {
    plan.buffers.iter().filter(move |buffer| (buffer.lower..buffer.upper).contains(&step))
}

struct Search<'a, 'b> {
    chooser: &'a Chooser<'b>,
    needs: Vec<Vec<Need>>,
    /// The smallest plan that was seen.
    least: RefCell<Plan>,
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
        let contracts = |call: &Call<'_>| chooser.context.contract(call);
        let needs = chooser.pick.needs(chooser.context.threads, &contracts);
        chooser.effort.begin(&fastest.extraction);
        Self { chooser, needs, least: RefCell::new(fastest.plan.clone()) }
    }

    /// Why no plan is within a limit: what stands in the way in the smallest that was found.
    fn too_large(&self, found: Plan, limit: usize) -> Error {
        let least = self.least.borrow();
        let plan = if least.arena < found.arena { &*least } else { &found };
        let mut text = too_large(plan, limit);
        if self.chooser.effort.is_spent() {
            let _ = write!(
                text,
                "\nthe search ended at its limit of work ({WORK} steps): there may be a smaller plan"
            );
        }
        Error::Plan(text)
    }

    /// Plans ever smaller, from one on, until one is within the limit or none smaller is found.
    fn down(
        &self,
        first: Trial,
        limit: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        // Where each plan is a long way to the next one, all of them are not to be had.
        let least_step = if self.chooser.effort.is_hasty() { first.plan.arena / POINTS } else { 0 };
        let mut trials = vec![first];
        while let Some(arena) = trials.last().map(|trial| trial.plan.arena)
            && arena > limit
            && trials.len() < POINTS
        {
            if limit == 0 {
                progress(self.chooser.effort.spent() / MILLION, WORK / MILLION);
            }
            let next = (arena - 1).min((arena - least_step).max(limit));
            let Some(next) = self.fit(next)? else { break };
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

    /// A fast plan within a limit, if one is found.
    fn fit(&self, limit: usize) -> Result<Option<Trial>, Error> {
        let with_copies = self.search(limit, Some(limit))?;
        let copies = |trial: &Trial| trial.plan.steps.iter().map(|step| step.copies).sum::<f64>();
        if with_copies.as_ref().is_some_and(|trial| copies(trial) == 0.0) {
            return Ok(with_copies);
        }
        // Another kernel may be cheaper than the copies.
        let without = self.search(limit, None)?;
        Ok(match (with_copies, without) {
            (Some(a), Some(b)) => Some(if b.extraction.cost < a.extraction.cost { b } else { a }),
            (a, b) => a.or(b),
        })
    }

    /// A fast plan within a limit, if one is found, of those that are planned for that limit or for none.
    fn search(&self, limit: usize, planned: Option<usize>) -> Result<Option<Trial>, Error> {
        // No plan within the limit runs a kernel that needs more by itself.
        let mut allowed = self.chooser.pick.problem.clone();
        self.forbid(&mut allowed, |_, need| need.least > limit);
        let (mut problem, mut price, mut bound) = (allowed.clone(), 0.0, None);
        for _ in 0..ROUNDS {
            let Some(mut trial) = self.chooser.best(&self.priced(&problem, price), planned)? else {
                if price > 0.0 || bound.is_none() || self.chooser.effort.is_spent() {
                    return Ok(None);
                }
                // Too much was forbidden: prices alone, then.
                problem = allowed.clone();
                price = f64::MIN_POSITIVE;
                continue;
            };
            let bound = *bound.get_or_insert(trial.extraction.bound);
            if trial.plan.arena < self.least.borrow().arena {
                *self.least.borrow_mut() = trial.plan.clone();
            }
            if trial.plan.arena <= limit {
                trial.extraction.bound = bound;
                trial.extraction.proven &= trial.extraction.cost <= bound * (1.0 + 1e-9);
                return Ok(Some(trial));
            }
            if price == 0.0 && self.make_room(&trial, limit, &mut problem) {
                continue;
            }
            #[allow(clippy::cast_precision_loss)]
            let unit = trial.extraction.cost / trial.plan.arena.max(1) as f64;
            price = if price < PRICE.0 * unit { PRICE.0 * unit } else { price * PRICE.1 };
            if price > DEAREST * unit {
                break;
            }
        }
        Ok(None)
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
    fn make_room(&self, trial: &Trial, limit: usize, problem: &mut Problem) -> bool {
        let mut room = vec![usize::MAX; self.needs.len()];
        for (at, step) in trial.plan.steps.iter().enumerate() {
            let live: usize = live(&trial.plan, at).map(|buffer| buffer.size).sum();
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

    /// The problem with a price for every byte of results and scratch.
    #[allow(clippy::cast_precision_loss)]
    fn priced(&self, problem: &Problem, price: f64) -> Problem {
        let mut priced = problem.clone();
        for (class, needs) in priced.classes.iter_mut().zip(&self.needs) {
            for (node, need) in class.nodes.iter_mut().zip(needs) {
                node.cost += price * need.own as f64;
            }
        }
        priced
    }
}

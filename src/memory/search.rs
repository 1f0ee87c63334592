//! Search for an order of execution with the least peak, and a bound for all orders.
//!
//! It takes tasks and orders of them, and returns one with a lower peak, if there is one, and a number of bytes that
//! no order is below. Both hold for the live bytes, in the terms of the plan: padding, results in place, views, scratch,
//! outputs, and operands that are computed within a result ([`model`]). If the two meet, no order is better. It never
//! fails: if the states are used up, it returns the best order and the best bound so far. It reads no clock, so the
//! result is the same on every machine.
//!
//! A task that is comparable with all others divides the program, and each part is searched by itself. In a part, the
//! least peak is found by bisection: [`decide`] answers whether some order needs no more than a number of bytes.

mod bound;
mod decide;
mod model;
mod optimum;
mod problem;
mod set;

use super::order::Task;
use super::reuse::{self, Reuse};
use super::sequence::{Candidate, Candidates, Order};
use crate::tensor::Device;
use bound::Reach;
use model::Model;
use optimum::Known;
use std::collections::BTreeSet;
use std::ops::Range;

/// Searches all orders for one with few live bytes, and has the candidates of `reuse` as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The most states that the search visits, over all parts of a program. With zero it only bounds the peak. A
    /// state takes about half a microsecond in a part of up to 64 steps. In a larger part it takes more time, and counts as
    /// up to eight. An eighth of the states is visited if constants are read again, because then those bytes mostly
    /// decide between orders.
    pub states: usize,
}

impl Search {
    /// The default of pipelines: at most about a quarter of a second for a plan of a randomly wired network. Most
    /// networks need no search, because an order by a heuristic reaches the bound.
    pub const DEFAULT: Self = Self { states: 500_000 };
}

impl Order for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn candidates(&self, tasks: &[Task]) -> Candidates {
        let mut candidates = Reuse.candidates(tasks);
        let devices: BTreeSet<Device> = tasks.iter().map(|task| task.device).collect();
        let Some(reach) = Reach::new(tasks) else {
            candidates.least = devices.into_iter().map(|on| (on, bound::operands(tasks, on))).collect();
            return candidates;
        };
        let ranges = reach.ranges();
        let counts = candidates.orders.iter().any(|one| one.reread > 0);
        let states = if counts { self.states / 8 } else { self.states };
        let mut known: Vec<Vec<usize>> = candidates.orders.iter().map(|one| one.tasks.clone()).collect();
        let before = known.len();
        for &device in &devices {
            let model = Model::least(tasks, Some(device), &|one, other| reach.comes_before(one, other));
            let least = most(&reach.least(tasks, Some(device)));
            let found = improve(&model, least, &ranges, &known, states);
            candidates.least.push((device, found.least));
            known.extend(found.order.filter(|_| devices.len() == 1));
        }
        // The sum of all devices, or the results with operands within them, differ from what was bounded.
        let model = Model::joined(tasks);
        if model.joins || devices.len() > 1 {
            let mut least = most(&reach.least(tasks, None));
            if let [(_, one)] = candidates.least[..] {
                least = least.max(one);
            }
            known.extend(improve(&model, least, &ranges, &known, states).order);
        }
        let further = known.split_off(before);
        let reread = |order: &[usize]| if counts { reuse::reread(tasks, order) } else { 0 };
        let further = further.into_iter().map(|tasks| Candidate { reread: reread(&tasks), tasks });
        candidates.orders.extend(further);
        candidates
    }
}

/// Returns for a device a number of bytes that are live at one time in every order of the tasks, without a search.
pub(crate) fn least(tasks: &[Task], device: Device) -> usize {
    match Reach::new(tasks) {
        Some(reach) => most(&reach.least(tasks, Some(device))),
        None => bound::operands(tasks, device),
    }
}

fn most(bytes: &[usize]) -> usize {
    bytes.iter().copied().max().unwrap_or(0)
}

/// What a search found.
struct Found {
    /// An order with a lower peak than the known ones.
    order: Option<Vec<usize>>,
    /// A number of bytes that no order is below.
    least: usize,
}

/// Improves known orders part by part. `least` is a bound that is known already.
fn improve(
    model: &Model,
    least: usize,
    ranges: &[Range<usize>],
    known: &[Vec<usize>],
    states: usize,
) -> Found {
    let live: Vec<Vec<usize>> = known.iter().map(|order| model.live(order)).collect();
    let peak = live.iter().map(|live| most(live)).min().unwrap_or(0);
    let mut found = Found { order: None, least };
    if peak <= least {
        return found;
    }
    let (mut order, mut reached, mut left) = (Vec::new(), 0, states);
    for range in ranges {
        let peaks = live.iter().map(|live| most(&live[range.clone()]));
        let Some((peak, best)) = peaks.zip(known).min_by_key(|(peak, _)| *peak) else { break };
        let mut part = Known { order: best[range.clone()].to_vec(), peak, least: found.least };
        left = part.improve(model, range, left);
        found.least = found.least.max(part.least.min(part.peak));
        reached = reached.max(part.peak);
        order.extend(part.order);
    }
    found.order = Some(order).filter(|_| reached < peak);
    found
}

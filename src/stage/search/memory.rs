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
//! What is limited and weighed is all memory that a plan takes of a device: the arena, and the constants that
//! it keeps, such as packed weights. The bytes of constants are exact: each constant is a class of the
//! problem, which costs its bytes once, even if several kernels read it. So a price of a byte compares two
//! ways of packing weights exactly.
//!
//! Each limit applies to one device. If memory is weighed against time, it is the host's memory, and the
//! lower bounds on time of all steps give a lower bound on the sum: a plan whose memory lies between two
//! limits is no faster than the bound of the larger limit, and no smaller than the smaller limit.

mod bound;
mod recompute;
mod search;

use super::room::{Measure, Room};
use super::trial::{Chooser, Trial};
use crate::error::Error;
use crate::memory::Limit;
use crate::plan::{Placed, Plan};
use crate::stage::objective::Objective;
use crate::tensor::Device;
use search::Search;
use std::fmt::Write;

/// The largest relative difference between sums of the same numbers in different orders.
const ROUNDING: f64 = 1e-9;

/// Returns the fastest plan that was found within limits.
pub(in crate::stage) fn within(chooser: &Chooser<'_>, limit: &Limit) -> Result<Trial, Error> {
    let room = Room::new(limit);
    let fastest = fastest(chooser)?;
    if room.holds(&fastest.plan) {
        return Ok(fastest);
    }
    let search = Search::new(chooser, &fastest)?;
    search.within(fastest, &room, &mut |_, _| {})
}

/// Returns the plan within the limits with the least sum of time and of the worth of the host's memory. The chooser has
/// the worth of a byte.
///
/// The bytes of constants are a sum over the chosen candidates, as time is. So the extraction itself includes
/// their worth, and the search only varies the size of the arena.
pub(in crate::stage) fn cheapest(chooser: &Chooser<'_>, limit: &Limit) -> Result<(Trial, Objective), Error> {
    let worth = chooser.worth;
    let fastest = fastest(chooser)?;
    let search = Search::new(chooser, &fastest)?;
    let room = Room::new(limit);
    let mut trials = search.curve(fastest, (Measure::Arena, Device::Host), &room, &mut |_, _| {})?;
    let sum = |trial: &Trial| trial.extraction.cost + Objective::memory_of(trial.plan.arena, worth);
    let last = trials.pop().ok_or_else(nothing)?;
    let mut best =
        trials.into_iter().fold(last, |best, trial| if sum(&trial) < sum(&best) { trial } else { best });
    let bound = search.bound(worth, limit.get(Device::Host).unwrap_or(usize::MAX)).min(sum(&best));
    // The result reports time without memory. What remains of the bound after the worth of the constants is a
    // lower bound on the time of all plans with at most this much memory.
    let constants = best.plan.constants_of(Device::Host);
    let kept = Objective::memory_of(constants, worth);
    let extraction = &mut best.extraction;
    extraction.cost -= kept;
    extraction.bound = (extraction.bound - kept).max(0.0);
    extraction.settle();
    let objective = Objective { seconds: extraction.cost, arena: best.plan.arena, constants, worth, bound };
    Ok((best, Objective { bound: bound.min(objective.sum()), ..objective }))
}

/// Returns plans of which each is faster than all plans that were found with less memory on a device. The
/// first one is the fastest within the limits.
pub(in crate::stage) fn curve(
    chooser: &Chooser<'_>,
    device: Device,
    limit: &Limit,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Trial>, Error> {
    let fastest = fastest(chooser)?;
    let search = Search::new(chooser, &fastest)?;
    search.curve(fastest, (Measure::Whole, device), &Room::new(limit), progress)
}

/// Returns the fastest plan without any limit of memory. If constants have a price, this is the plan with the
/// least sum of time and that price.
fn fastest(chooser: &Chooser<'_>) -> Result<Trial, Error> {
    chooser.best(&search::weighed(chooser), &Room::default())?.ok_or_else(nothing)
}

fn nothing() -> Error {
    Error::NothingRuns
}

/// Returns the message for a plan that is too large, with the buffers that are live at its peak.
pub(crate) fn too_large(plan: &Plan, device: Device, limit: usize) -> String {
    let live = |step: &usize| live(plan, device, *step).map(|buffer| buffer.size).sum::<usize>();
    let peak = (0..plan.steps.len()).max_by_key(|step| (live(step), std::cmp::Reverse(*step))).unwrap_or(0);
    let of = if plan.devices.is_empty() { String::new() } else { format!(" of {device}") };
    let mut text = format!(
        "the smallest plan that was found needs {} bytes{of}, and {limit} are allowed",
        plan.memory_of(device)
    );
    let constants = plan.constants_of(device);
    if constants > 0 {
        let arena = plan.arena_of(device);
        let _ = write!(
            text,
            "\n{constants} of them hold constants, such as packed weights, and {arena} the arena"
        );
    }
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

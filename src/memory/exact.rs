//! Exact packing: heuristics first, then branch and bound in seeded restarts, counted in steps.
//!
//! Takes buffers, gives offsets whose peak is the least where `proven` says so and the least found
//! otherwise. Refuses nothing: when the steps are spent, the best packing so far is the answer, and
//! it is not called proven. No clock is read, so the answer is the same everywhere.
//!
//! Whether a packing fits below a ceiling is decided by [`search`]: place buffers from the bottom
//! up, and cut what cannot fit or what another packing makes up for. How long one such search takes
//! varies wildly with the order in which buffers are tried: it finds an answer at once or not for a
//! long time. So many short searches with differing orders come first, and their length grows.
//! Non-decreasing canonical packings, room left in a slice of time, and dominance are the ideas of
//! M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
//! Learning", ASPLOS 2023. Filling any local valley of the skyline rather than the lowest place,
//! weights of slices that failed (Boussemart et al., "Boosting systematic search by weighting
//! constraints", ECAI 2004) and restarts against heavy tails (Gomes et al., "Heavy-tailed phenomena
//! in satisfiability and constraint satisfaction problems", JAR 2000) are what is added here.

mod problem;
mod search;

use super::fit::{self, Work};
use super::{Buffer, Packing, Planner, lower_bound};
use problem::{Problem, components};
use search::{Pick, Search, Verdict};
use std::cmp::Reverse;

/// Exact search within a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// How many steps the search may take, over all parts and restarts. None: heuristics only, which count as
    /// well where thousands of buffers make them long. A step is a
    /// question about one buffer, so that hundreds of buffers take some microseconds; where thousands hang
    /// together, and a question touches more, it counts for as many steps as it is worth.
    pub steps: u64,
    /// Bytes that are enough: the search ends when the peak is no higher. Zero asks for the least.
    pub capacity: usize,
}

impl Exact {
    /// What pipelines use: the least peak, within about a second for hard networks. Heuristics
    /// reach the lower bound on most, and then no step is taken.
    pub const DEFAULT: Self = Self { steps: 50_000, capacity: 0 };
}

impl Planner for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn plan(&self, buffers: &[Buffer]) -> Packing {
        self.plan_with(buffers, &mut |_, _| {})
    }
}

impl Exact {
    /// As [`Planner::plan`]; `progress` is told, while it goes on, how many of how many steps were taken.
    pub fn plan_with(&self, buffers: &[Buffer], progress: &mut dyn FnMut(u64, u64)) -> Packing {
        let steps = |pairs: u64| (pairs.saturating_sub(FREE) / PAIRS).min(self.steps);
        let most = FREE.saturating_add(self.steps.saturating_mul(PAIRS));
        let mut tell = |pairs: u64| {
            if steps(pairs) > 0 {
                progress(steps(pairs), self.steps);
            }
        };
        let mut work = Work::new(most, &mut tell);
        let mut packing = fit::best(buffers, &mut work);
        packing.steps = steps(work.done());
        let enough = packing.lower_bound.max(self.capacity);
        if packing.peak <= enough {
            return packing;
        }
        // Parts of the time that share no buffer are packed by themselves; what the highest of
        // them needs is there for the others, too.
        let mut parts: Vec<Part> = components(buffers)
            .into_iter()
            .map(|problem| Part::new(problem, &packing.offsets, &mut work))
            .collect();
        let heuristic = steps(work.done());
        let mut enough = parts.iter().map(|part| part.least).max().unwrap_or(0).max(self.capacity);
        let (mut spent, mut gained) = (heuristic, 0);
        parts.sort_by_key(|part| Reverse(part.least)); // stable: by time among equals
        for part in &mut parts {
            let before = spent;
            let (took, last) = part.improve(enough, self.steps - before, &mut |steps| {
                progress(before + steps, self.steps);
            });
            gained = last.map_or(gained, |last| before + last);
            spent += took;
            enough = enough.max(part.peak);
        }
        (packing.steps, packing.gained) = (spent, gained);
        let peak = parts.iter().map(|part| part.peak).max().unwrap_or(0);
        if peak < packing.peak {
            packing.offsets = vec![0; buffers.len()];
            for part in &parts {
                for (item, offset) in part.problem.items.iter().zip(&part.offsets) {
                    packing.offsets[item.buffer] = *offset;
                }
            }
            packing.peak = peak;
        }
        packing.proven = parts.iter().any(|part| part.least >= packing.peak);
        packing
    }
}

/// Pairs of buffers that the heuristics look at for a step.
const PAIRS: u64 = 1 << 12;
/// So many are no step: with hundreds of buffers the heuristics are done at once.
const FREE: u64 = 1 << 24;

/// What buffers are ranked by; the first in rank is tried first.
#[derive(Clone, Copy)]
enum Order {
    Life,
    Size,
    Area,
    Span,
}

/// The ways to search that take turns. Each of them packs instances that the others do not.
const STRATEGIES: [(Pick, Order); 8] = [
    (Pick::Failing, Order::Size),
    (Pick::Tight, Order::Size),
    (Pick::Failing, Order::Life),
    (Pick::Tight, Order::Span),
    (Pick::Failing, Order::Area),
    (Pick::Tight, Order::Area),
    (Pick::Failing, Order::Span),
    (Pick::Tight, Order::Life),
];

/// Steps for each item of a search in the first round: one that meets few dead ends takes about one.
const FIRST_RUN: u64 = 2;
/// The part of the way from the peak to the goal that the first odd round asks for: an eighth.
const FIRST_STRIDE: usize = 8;

/// A component and the best packing of it that is known.
struct Part {
    problem: Problem,
    /// Offsets by item, in bytes.
    offsets: Vec<usize>,
    /// Bytes.
    peak: usize,
    /// No packing has a lower peak, in bytes.
    least: usize,
}

impl Part {
    /// With the best packing by heuristics, which is no worse than the one that is known of all buffers.
    fn new(problem: Problem, known: &[usize], work: &mut Work<'_>) -> Self {
        let buffers: Vec<Buffer> = problem.items.iter().map(|item| item.given).collect();
        let least = lower_bound(&buffers);
        let offsets: Vec<usize> = problem.items.iter().map(|item| known[item.buffer]).collect();
        let peak = problem.peak(&offsets);
        if !work.is_spent() {
            let own = fit::best(&buffers, work);
            if own.peak <= peak {
                return Self { problem, offsets: own.offsets, peak: own.peak, least };
            }
        }
        Self { problem, offsets, peak, least }
    }

    /// Lowers the peak until it is enough, or the least, or the steps are spent; says how many were, and after
    /// how many it was lowered last.
    fn improve(&mut self, enough: usize, steps: u64, progress: &mut dyn FnMut(u64)) -> (u64, Option<u64>) {
        let (mut spent, mut gained) = (0, None);
        let worth = self.problem.worth;
        let mut run = FIRST_RUN * worth * self.problem.items.len() as u64;
        let mut stride = FIRST_STRIDE;
        for round in 0_usize.. {
            for (at, (pick, order)) in STRATEGIES.into_iter().enumerate() {
                let goal = self.least.max(enough);
                if self.peak <= goal || steps - spent < worth {
                    return (spent, gained);
                }
                // Even rounds ask for the goal itself; odd ones for a part of the way there, which
                // grows with success and shrinks without.
                let way = self.peak - 1 - goal;
                let ceiling = goal + if round % 2 == 0 { 0 } else { way - way / stride };
                let rank = self.rank(order, round * STRATEGIES.len() + at);
                let mut search = Search::new(&self.problem, ceiling, &rank, pick);
                let verdict = search.run(run.min(steps - spent));
                spent += search.steps();
                progress(spent);
                match verdict {
                    Verdict::Packed => {
                        gained = Some(spent);
                        stride = (stride / 2).max(2);
                        self.offsets = search.offsets();
                        self.peak = self.problem.peak(&self.offsets);
                    }
                    Verdict::Impossible => self.least = self.problem.next_peak(ceiling),
                    Verdict::Unknown => {}
                }
            }
            run = run.saturating_add(run / 4);
            if round % 2 == 1 {
                stride = stride.saturating_mul(2);
            }
        }
        (spent, gained)
    }

    /// The rank of each item: by the order's key, the largest first, which from the second round on
    /// is off by up to a third, as the seed has it.
    fn rank(&self, order: Order, seed: usize) -> Vec<usize> {
        let key = |at: usize| {
            let item = &self.problem.items[at];
            let life = item.given.upper - item.given.lower;
            let (first, second) = match order {
                Order::Life => (life as u128, item.given.size),
                Order::Size => (item.given.size as u128, item.end - item.first),
                Order::Area => (life as u128 * item.given.size as u128, item.given.size),
                Order::Span => ((item.end - item.first) as u128, item.given.size),
            };
            let off = if seed < STRATEGIES.len() { 0 } else { mix(seed, at) % 342 };
            (first.saturating_mul(1024 + u128::from(off)), second)
        };
        let mut order: Vec<usize> = (0..self.problem.items.len()).collect();
        order.sort_by_cached_key(|&at| Reverse(key(at)));
        let mut rank = vec![0; order.len()];
        for (position, at) in order.into_iter().enumerate() {
            rank[at] = position;
        }
        rank
    }
}

/// A number that looks random, of two numbers: the finalizer of SplitMix64 (Steele et al., "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
fn mix(seed: usize, at: usize) -> u64 {
    let mut bits = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at as u64);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;

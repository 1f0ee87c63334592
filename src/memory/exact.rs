//! Exact packing: heuristics first, then branch and bound with seeded restarts. Its limit counts steps.
//!
//! It takes buffers and returns offsets. Their peak is the least possible one if `proven` says so, and otherwise the
//! least one that was found. It never fails: if the steps are used up, it returns the best packing so far, which is
//! then not proven. It reads no clock, so the result is the same on every machine.
//!
//! [`search`] decides whether a packing fits below a ceiling: it places buffers from the bottom up, and cuts branches
//! that cannot fit or that another packing makes unnecessary. The time of such a search depends strongly on the order
//! in which buffers are tried: it finds an answer at once, or not for a long time. So there are many short searches
//! with different orders, whose length grows. Non-decreasing canonical packings, the check of the room that is left
//! in a slice of time, and dominance are ideas of M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
//! Hardware-Accelerated Machine Learning", ASPLOS 2023. Three things are added here: it fills any local valley of the
//! skyline instead of the lowest place; slices that failed get weights (Boussemart et al., "Boosting systematic
//! search by weighting constraints", ECAI 2004); and restarts avoid heavy tails (Gomes et al., "Heavy-tailed
//! phenomena in satisfiability and constraint satisfaction problems", JAR 2000).

mod problem;
mod search;
mod strategy;

use super::fit::{self, Work};
use super::{Buffer, Packing, Planner, lower_bound};
use problem::{Problem, components};
use search::{Search, Verdict};
use std::cmp::Reverse;
use strategy::{STRATEGIES, rank};

/// An exact search with a limit on steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The most steps of the search, over all parts and restarts. With zero, only the heuristics run. A step is one
    /// question about one buffer: with hundreds of buffers it takes some microseconds. If thousands of buffers are
    /// connected, a question touches more of them and counts as several steps. The heuristics count too, if thousands
    /// of buffers make them slow.
    pub steps: u64,
    /// A sufficient peak in bytes: the search ends when the peak is not higher. Zero requests the least peak.
    pub capacity: usize,
}

impl Exact {
    /// The default of pipelines: the least peak, within about a second for hard networks. For most networks the
    /// heuristics already reach the lower bound, and no step is needed.
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
    /// Does the same as [`Planner::plan`], and calls `progress` with the number of steps so far and the most steps.
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
        // Parts of the time that share no buffer are packed separately. The peak of the highest part is available to
        // all others.
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

/// The number of pairs of buffers that the heuristics may compare in one step.
const PAIRS: u64 = 1 << 12;
/// Pairs that do not count as steps: with hundreds of buffers the heuristics finish within them.
const FREE: u64 = 1 << 24;

/// The steps for each item in the first round. A search with few dead ends takes about one.
const FIRST_RUN: u64 = 2;
/// The first odd round tries to lower the peak by this part of the distance to the goal: an eighth.
const FIRST_STRIDE: usize = 8;

/// A component, and the best known packing of it.
struct Part {
    problem: Problem,
    /// The offset of each item, in bytes.
    offsets: Vec<usize>,
    /// The peak in bytes.
    peak: usize,
    /// A lower bound of the peak, in bytes.
    least: usize,
}

impl Part {
    /// Starts with the better of two packings: the known one of all buffers, and one of this component by heuristics.
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

    /// Lowers the peak until it is low enough, or the least possible one, or the steps are used up. Returns the
    /// number of steps, and the number after which the peak was lowered last.
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
                // Even rounds try the goal itself. Odd rounds try a part of the way, which grows after a success and
                // shrinks otherwise.
                let way = self.peak - 1 - goal;
                let ceiling = goal + if round % 2 == 0 { 0 } else { way - way / stride };
                let rank = rank(&self.problem, order, round * STRATEGIES.len() + at);
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
}

//! The exact extractor: reduce, condense, then the frontier in the order that predicts least work.

use super::bound::{chain, shares};
use super::canonical::{Trees, Work, price};
use super::component::Components;
use super::frontier::{Caps, Excess, Network, Outcome, Stop};
use super::greedy::settle;
use super::order;
use super::reduce::Reduced;
use super::share;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report, Size};

/// Finds the cheapest selection and knows that it is, within limits of work; beyond them gives a good
/// one with a lower bound, and says which limit it was.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// How much work it may take.
    pub limits: Limits,
}

/// Limits of work, all counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// States kept at once before a result counts as unproven.
    pub states: usize,
    /// States kept at once once there is no hope of a proof.
    pub beam: usize,
    /// States made over all steps of one run.
    pub work: usize,
    /// Candidates tried inside one component.
    pub options: usize,
}

impl Limits {
    /// The limits that pipelines use unless they say otherwise: a few seconds at most.
    pub const DEFAULT: Self = Self { states: 20_000, beam: 500, work: 20_000_000, options: 200_000 };
}

impl Exact {
    /// With the default limits.
    pub const DEFAULT: Self = Self { limits: Limits::DEFAULT };
}

impl Default for Exact {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Extractor for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn claim(&self) -> Claim {
        Claim::Optimal
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let whole = Work::new(problem)?;
        let reduced = Reduced::new(&whole);
        let work = &reduced.work;
        let components = Components::new(work);
        let mut report = Report {
            size: whole.size(),
            reduced: Size {
                classes: work.classes.iter().filter(|nodes| !nodes.is_empty()).count(),
                nodes: work.classes.iter().map(Vec::len).sum(),
            },
            components: components.len(),
            largest_component: components.largest(),
            ..Report::default()
        };
        let found = self.solve(work, &components, &mut report);
        let mut choice = reduced.removed.clone();
        for (class, nodes) in work.classes.iter().enumerate() {
            if let Some(place) = found.choice[class] {
                choice[class] = Some(nodes[place as usize].index);
            }
        }
        Ok(whole.finish(&choice, (found.bound + reduced.sunk) * SLACK, found.proven, report))
    }
}

/// A bound is a sum taken in another order than the cost: this much of it may be rounding.
const SLACK: f64 = 1.0 - 1e-12;

/// Orders that are tried beside the one from the root down.
const OTHERS: usize = 1;
/// The tries of each order: what share of the limits it has.
const SHARES: [usize; 2] = [5, 1];

struct Found {
    choice: Vec<Option<u32>>,
    bound: f64,
    proven: bool,
}

impl Exact {
    fn solve(&self, work: &Work, components: &Components, report: &mut Report) -> Found {
        let trees = Trees::new(&work.classes);
        let worth = shares(&work.classes, &trees.cost);
        let mut stop = Stop::Options;
        let network = Network::new(work, components, &worth);
        let mut plans = Vec::new();
        let mut record = |outcome: &Outcome| {
            report.states += outcome.states;
            report.peak_states = report.peak_states.max(outcome.peak);
        };
        let Limits { states, beam, work: steps, options } = self.limits;
        if let Some(network) = &network {
            plans.push(order::down(work, components));
            // What an order needs is known only once it was tried: a short try from the root down and of
            // the order that promises most beside it, then longer ones, so that none that fails costs
            // much more than the one that does not.
            for share in SHARES {
                let mut at = 0;
                while let Some(plan) = plans.get(at) {
                    let caps = Caps { states: states / share, work: steps / share, options };
                    match network.run(plan, caps, Excess::Stop) {
                        Ok(outcome) => {
                            record(&outcome);
                            report.method = "frontier".to_owned();
                            return Found { choice: outcome.choice, bound: outcome.cost, proven: true };
                        }
                        Err(reason) => stop = reason,
                    }
                    if plans.len() == 1 {
                        let mut others = order::others(work, components);
                        others.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
                        plans.extend(others.into_iter().take(OTHERS));
                    }
                    at += 1;
                }
            }
        }
        let greedy = settle(&work.classes, super::greedy::SETTLE_STEPS / 10).unwrap_or(trees.choice);
        let mut best = Found { bound: chain(&work.classes, &work.roots), choice: greedy, proven: false };
        let mut best_cost = price(&work.classes, &work.roots, &best.choice);
        report.method = "cheapest DAGs".to_owned();
        if let Some(network) = &network {
            let caps = Caps { states: beam, work: steps, options };
            for plan in plans.iter().take(2) {
                if let Ok(outcome) = network.run(plan, caps, Excess::Drop) {
                    record(&outcome);
                    if outcome.cost < best_cost {
                        best_cost = outcome.cost;
                        best.choice = outcome.choice;
                        report.method = "frontier as a beam".to_owned();
                    }
                }
                if let Ok(outcome) = network.run(plan, caps, Excess::Merge) {
                    record(&outcome);
                    best.bound = best.bound.max(outcome.cost);
                }
            }
        }
        share::improve(&work.classes, &work.roots, &mut best.choice);
        report.limit = Some(match stop {
            Stop::States => format!("{states} states at once"),
            Stop::Work => format!("{steps} states in all"),
            Stop::Options | Stop::DeadEnd => format!("a component of {} classes", components.largest()),
        });
        best
    }
}

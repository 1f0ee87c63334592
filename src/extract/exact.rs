//! The exact extractor: it reduces the problem, finds its components, and runs the frontier in the order that
//! predicts the least work. If that takes too much work, it uses a good selection and good bounds to rule out
//! candidates, and starts again without them.

use super::bound::shares;
use super::canonical::{Trees, Work, price};
use super::component::Components;
use super::frontier::{Caps, Excess, Network, Stop};
use super::order;
use super::order::ComponentOrder;
use super::reduce::Reduced;
use super::relax::{Relaxed, Shared, relax};
use super::search::{LocalSearch, SLACK};
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report, part};
use crate::ron::at_least;
use serde::{Deserialize, Serialize};

/// Finds the cheapest selection and proves that it is the cheapest, within limits of work. If a limit is reached, it
/// returns a good selection with a lower bound, and names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Exact {
    /// The limits of work.
    pub limits: Limits,
}

/// Limits of work, as counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "Exact")]
pub struct Limits {
    /// The states that may be kept at one time. With more states, the result is not proven.
    #[serde(deserialize_with = "at_least::<2, _>")]
    pub states: usize,
    /// The states that are kept at one time after the attempts at a proof have failed.
    #[serde(deserialize_with = "at_least::<2, _>")]
    pub beam: usize,
    /// The states that may be made over all steps of one run.
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub work: usize,
    /// The candidates that may be tried inside one component.
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub options: usize,
}

impl Limits {
    /// The default limits of pipelines: an extraction takes a few seconds at most.
    pub const DEFAULT: Self = Self { states: 20_000, beam: 500, work: 20_000_000, options: 200_000 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The divisor of all limits for a hurried search, and the least and the largest limit of work that it gets.
const SHARE: usize = 20;
const LEAST: usize = 10_000;
const MOST: usize = 100_000;

impl Exact {
    /// The extractor with the default limits.
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

    fn hurried(&self) -> Option<Box<dyn Extractor>> {
        let Limits { states, beam, work, options } = self.limits;
        let share = |limit: usize| (limit / SHARE).max(1);
        let limits = Limits {
            states: share(states).max(states.min(500)),
            beam: share(beam).max(beam.min(50)),
            work: (work / SHARE).clamp(LEAST.min(work), MOST),
            options,
        };
        Some(Box::new(Self { limits }))
    }

    fn work(&self) -> usize {
        self.limits.work
    }

    fn with_effort(&self, share: f64) -> Option<Box<dyn Extractor>> {
        let Limits { states, beam, work, options } = self.limits;
        let limits = Limits {
            states: part(states, share).max(2),
            beam: part(beam, share).max(2),
            work: part(work, share),
            options: part(options, share),
        };
        Some(Box::new(Self { limits }))
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let whole = Work::new(problem)?;
        let mut report = Report::default();
        let found = self.solve(&whole, f64::INFINITY, DEPTH, &mut report);
        Ok(whole.finish(&found.choice, found.bound * SLACK, found.proven, report))
    }
}

/// The number of orders that are tried besides the one from the roots down.
const OTHERS: usize = 1;
/// The divisors of the limits for the attempts with each order.
const SHARES: [usize; 2] = [5, 1];
/// The number of times that a problem is solved again without the candidates that bounds have ruled out.
const DEPTH: usize = 6;
/// It is solved again if at least one of this many candidates is ruled out.
const WORTH: usize = 20;

struct Found {
    choice: Vec<Option<u32>>,
    cost: f64,
    bound: f64,
    proven: bool,
}

impl Exact {
    /// Solves a problem in which only selections that cost less than the target matter.
    fn solve(&self, whole: &Work, target: f64, depth: usize, report: &mut Report) -> Found {
        let reduced = Reduced::new(whole);
        let components = Components::new(&reduced.work);
        if depth == DEPTH {
            *report = Report::new(whole, &reduced, &components);
        }
        let found = self.solve_reduced(&reduced.work, &components, target - reduced.sunk, depth, report);
        Found {
            choice: reduced.restore(&found.choice),
            cost: found.cost + reduced.sunk,
            bound: found.bound + reduced.sunk,
            proven: found.proven,
        }
    }

    fn solve_reduced(
        &self,
        work: &Work,
        components: &Components,
        target: f64,
        depth: usize,
        report: &mut Report,
    ) -> Found {
        let worth = shares(&work.classes, &Trees::new(&work.classes).cost);
        let network = Network::new(work, components, &worth);
        let mut plans = Vec::new();
        let [short, long] = SHARES;
        let mut stop = match self.tries(network.as_ref(), &mut plans, short, report) {
            Ok(found) => return found,
            Err(stop) => stop,
        };
        let Limits { states, beam, work: steps, options } = self.limits;
        let shared = match plans.first() {
            Some(plan) => Shared::new(work, plan, components, steps),
            None => Shared::new(work, &order::down(work, components), components, steps),
        };
        let relaxed = relax(work, &shared, |left| self.frontier(left, report));
        if let Some(found) = relaxed.as_ref().filter(|found| found.proven()) {
            let Relaxed { choice, cost, bound } = found;
            report.method = "frontier that ignores sharing".to_owned();
            return Found { choice: choice.clone(), cost: *cost, bound: *bound, proven: true };
        }
        let search = LocalSearch { steps: steps.saturating_mul(VISITS) };
        let mut best = search.search(work, &shared, report);
        let mut proven = false;
        if let Some(found) = relaxed {
            best.bound = best.bound.max(found.bound);
            if found.cost < best.cost {
                (best.choice, best.cost) = (found.choice, found.cost);
            }
        }
        // Every better selection consists of candidates that the bounds have not ruled out.
        let target = target.min(best.cost);
        match filtered(work, &best.least, target) {
            None => proven = true,
            Some((left, places)) => {
                let (few, all): (usize, usize) = (count(&left), count(work));
                if depth > 0 && (all - few) * WORTH > all {
                    let found = self.solve(&left, target, depth - 1, report);
                    best.bound = best.bound.max(found.bound.min(target));
                    proven = found.proven;
                    if found.cost < best.cost {
                        let place = |(class, place): (usize, &Option<u32>)| {
                            place.map(|place| places[class][place as usize])
                        };
                        best.choice = found.choice.iter().enumerate().map(place).collect();
                        best.cost = found.cost;
                    }
                } else {
                    match self.tries(network.as_ref(), &mut plans, long, report) {
                        Ok(found) => return found,
                        Err(other) => stop = other,
                    }
                    if let Some(network) = &network {
                        let caps = Caps { states: beam, work: steps.min(BEAMS), options };
                        for plan in &plans {
                            if let Ok(outcome) = network.run(plan, caps, Excess::Drop) {
                                report.states += outcome.states;
                                if outcome.cost < best.cost {
                                    best.cost = outcome.cost;
                                    best.choice = outcome.choice;
                                    report.method = "frontier as a beam".to_owned();
                                }
                            }
                            if let Ok(outcome) = network.run(plan, caps, Excess::Merge) {
                                report.states += outcome.states;
                                best.bound = best.bound.max(outcome.cost);
                            }
                        }
                    }
                }
            }
        }
        if !proven {
            report.limit = Some(match stop {
                Stop::States => format!("{states} states at once"),
                Stop::Work => format!("{steps} states in all"),
                Stop::Options | Stop::DeadEnd => format!("a component of {} classes", components.largest()),
            });
        }
        // Either the selection is the cheapest one, or no selection costs less than the target.
        let bound = if proven { target.min(best.cost) } else { best.bound };
        Found { choice: best.choice, cost: best.cost, bound, proven }
    }

    /// Returns the cheapest selection of a problem, if short attempts of the frontier find it.
    fn frontier(&self, work: &Work, report: &mut Report) -> Option<Vec<Option<u32>>> {
        let reduced = Reduced::new(work);
        let components = Components::new(&reduced.work);
        let worth = vec![0.0; work.classes.len()];
        let network = Network::new(&reduced.work, &components, &worth);
        let found = self.tries(network.as_ref(), &mut Vec::new(), SHARES[0], report).ok()?;
        Some(reduced.restore(&found.choice))
    }

    /// Runs the frontier in the order from the roots down and in the best predicted other order. The work that an
    /// order really needs is known only after an attempt, so short attempts come first: then a failed attempt costs
    /// little compared with a successful one.
    fn tries(
        &self,
        network: Option<&Network<'_>>,
        plans: &mut Vec<ComponentOrder>,
        share: usize,
        report: &mut Report,
    ) -> Result<Found, Stop> {
        let Some(network) = network else { return Err(Stop::Options) };
        let Limits { states, work: steps, options, .. } = self.limits;
        let (work, components) = (network.work, network.components);
        if plans.is_empty() {
            plans.push(order::down(work, components));
        }
        let caps = Caps { states: states / share, work: steps / share, options };
        let mut stop = Stop::Options;
        let mut at = 0;
        while let Some(plan) = plans.get(at) {
            match network.run(plan, caps, Excess::Stop) {
                Ok(outcome) => {
                    report.states += outcome.states;
                    report.peak_states = report.peak_states.max(outcome.peak);
                    report.method = "frontier".to_owned();
                    let cost = price(&work.classes, &work.roots, &outcome.choice);
                    return Ok(Found { choice: outcome.choice, cost, bound: cost, proven: true });
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
        Err(stop)
    }
}

/// The number of visits of the local search for each state that the frontier may make.
const VISITS: usize = 20;
/// The most work of a beam. With more work, the local search finds better selections.
const BEAMS: usize = 200_000;

fn count(work: &Work) -> usize {
    work.classes.iter().map(Vec::len).sum()
}

/// Returns the problem without candidates that cost at least the target, and the old index of each candidate that is
/// left; `None` if nothing cheaper is left.
fn filtered(work: &Work, least: &[Vec<f64>], target: f64) -> Option<(Work, Vec<Vec<u32>>)> {
    // A smaller difference is only rounding.
    let enough = target * (1.0 - 1e-11);
    let mut left = work.clone();
    for (nodes, least) in left.classes.iter_mut().zip(least) {
        let mut at = 0;
        for (place, node) in nodes.iter_mut().enumerate() {
            node.index = place as u32;
        }
        nodes.retain(|_| {
            at += 1;
            least.get(at - 1).is_some_and(|least| *least < enough)
        });
    }
    let runs = Trees::new(&left.classes).choice;
    if left.roots.iter().any(|&root| runs[root as usize].is_none()) {
        return None;
    }
    for nodes in &mut left.classes {
        nodes.retain(|node| node.children.iter().all(|&child| runs[child as usize].is_some()));
    }
    let places = left.classes.iter().map(|nodes| nodes.iter().map(|node| node.index).collect()).collect();
    Some((left, places))
}

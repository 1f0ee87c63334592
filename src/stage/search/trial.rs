//! A choice with its plan, without which its cost is not known.

use super::effort::Effort;
use super::room::Room;
use crate::cost::CostModel;
use crate::egraph::{Pick, Program};
use crate::error::Error;
use crate::extract::{ExtractError, Extraction, Problem};
use crate::graph::NodeId;
use crate::memory::Limit;
use crate::plan::{Plan, constant_bytes};
use crate::stage::objective::Objective;
use crate::stage::planning::Planning;
use crate::stage::target::Target;
use crate::tensor::Device;

/// The means of choosing programs: an extractor with its work, candidates and prices.
pub(in crate::stage) struct Chooser<'a> {
    pub pick: &'a Pick<'a>,
    /// The prices: those of `pick`, or different ones for the same candidates.
    pub problem: &'a Problem,
    pub effort: Effort<'a>,
    pub model: &'a dyn CostModel,
    pub target: &'a Target,
    pub planning: &'a Planning,
    /// Milliseconds that a mebibyte of the host's memory is worth. What constants are worth is part of what a plan
    /// costs.
    pub worth: f64,
}

/// A program that was chosen and planned. The cost of the extraction includes the copies that the plan adds. The plan
/// does not contain the origins of its steps.
pub(in crate::stage) struct Trial {
    pub extraction: Extraction,
    pub program: Program,
    pub plan: Plan,
    /// The limits of arenas that it was planned for.
    pub within: Limit,
}

/// How often the prices of copies are added and the choice repeated; the second number applies if the extraction
/// reached its limits, because then it is slow, and further from the optimum than copies cost.
const ROUNDS: usize = 8;
const UNPROVEN_ROUNDS: usize = 1;

impl Chooser<'_> {
    /// Returns the best choice by these prices, including the cost of all copies in its plan, also those that keep it
    /// within a limit. A copy that the first choice needs may cost more than another kernel, so its price is added to
    /// the candidate, and the choice is repeated.
    ///
    /// `None` where nothing can be run, or where a search has no work left.
    pub(crate) fn best(&self, problem: &Problem, room: &Room) -> Result<Option<Trial>, Error> {
        let Some(mut best) = self.trial(problem, room)? else { return Ok(None) };
        let above = |trial: &Trial| !room.holds(&trial.plan);
        let (bound, proven) = (best.extraction.bound, best.extraction.proven);
        let mut priced: Option<Problem> = None;
        let mut copies = self.copies(&best);
        for _ in 0..if proven { ROUNDS } else { UNPROVEN_ROUNDS } {
            if copies.is_empty() {
                break;
            }
            let priced = priced.get_or_insert_with(|| problem.clone());
            for (class, place, seconds) in copies {
                let node = &mut priced.classes[class].nodes[place];
                node.cost = node.cost.max(problem.classes[class].nodes[place].cost + seconds);
            }
            let Some(next) = self.trial(priced, room)? else { break };
            copies = self.copies(&next);
            let known = |(class, place, seconds): &(usize, usize, f64)| {
                let cost = |problem: &Problem| problem.classes[*class].nodes[*place].cost;
                cost(priced) >= cost(problem) + seconds
            };
            copies = if copies.iter().all(known) { Vec::new() } else { copies };
            let rank = |trial: &Trial| (above(trial), trial.extraction.cost);
            if rank(&next) < rank(&best) {
                best = next;
            }
        }
        best.extraction.bound = bound;
        best.extraction.proven = proven && best.extraction.cost <= bound * (1.0 + ROUNDING);
        best.extraction.settle();
        Ok(Some(best))
    }

    /// The choice by some prices, and what it costs by the true ones.
    fn trial(&self, problem: &Problem, room: &Room) -> Result<Option<Trial>, Error> {
        let mut extraction = match self.effort.extract(problem) {
            Some(Ok(extraction)) => extraction,
            None | Some(Err(ExtractError::NothingRuns { .. })) => return Ok(None),
            Some(Err(error)) => return Err(error.into()),
        };
        let program = self.pick.build(&extraction);
        let limit = room.beside(&constant_bytes(&program.graph));
        let plan = self.planning.plan(&program.graph, &[], self.model, self.target, &limit)?;
        let copies: f64 = plan.steps.iter().map(|step| step.copies).sum();
        let cost = self.problem.cost(&extraction.choice);
        extraction.cost = cost? + copies;
        if self.worth > 0.0 {
            extraction.cost += Objective::memory_of(plan.constants_of(Device::Host), self.worth);
        }
        Ok(Some(Trial { extraction, program, plan, within: limit }))
    }

    /// Returns the candidates of a choice that need copies: class, position in the class, seconds of the copies.
    fn copies(&self, trial: &Trial) -> Vec<(usize, usize, f64)> {
        let copying = trial.plan.steps.iter().filter(|step| step.copies > 0.0);
        copying
            .filter_map(|step| {
                let (class, place) = trial.candidate(step.node)?;
                Some((class, place, step.copies))
            })
            .collect()
    }
}

impl Trial {
    /// Returns the candidate that computes a node of the program: its class and its position there.
    pub(crate) fn candidate(&self, node: NodeId) -> Option<(usize, usize)> {
        let class = self.program.classes[node.index()]?;
        Some((class, self.extraction.choice[class]? as usize))
    }
}

/// The cost and its bound are sums in different orders, so they may differ by this relative error.
const ROUNDING: f64 = 1e-9;

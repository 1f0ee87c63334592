//! An e-graph whose kernels have prices, and how one program among all in it is chosen.

use super::chosen::{Chosen, sources};
use super::objective::Objective;
use super::planning::Planning;
use super::search::{Chooser, Effort, NOTHING, Room, Trial, memory};
use super::target::Target;
use crate::cost::CostModel;
use crate::egraph::{EGraph, Pick};
use crate::error::Error;
use crate::extract::{Exact, Extractor, Problem};
use crate::op::Call;
use crate::plan::{Plan, Step};
use std::sync::Arc;

/// How one program is chosen among all in an e-graph.
#[derive(Clone)]
pub struct Choice {
    /// The extractor.
    pub extractor: Arc<dyn Extractor>,
    /// Milliseconds that a mebibyte of the host's memory is worth: of the arena, and of the constants that are kept.
    /// At 0 the fastest program within the limits of `planning` is chosen.
    pub worth: f64,
    /// How programs are planned while they are compared: what a program needs of memory, and which copies it needs,
    /// is known only from its plan.
    pub planning: Planning,
}

impl Default for Choice {
    fn default() -> Self {
        Self { extractor: Arc::new(Exact::DEFAULT), worth: 0.0, planning: Planning::default() }
    }
}

/// The third stage: every kernel of the e-graph that the target runs, with its price.
pub struct Priced<'a> {
    pub(super) pick: Pick<'a>,
    pub(super) model: Arc<dyn CostModel>,
    pub(super) target: Target,
}

impl<'a> Priced<'a> {
    pub(super) fn new(egraph: &'a EGraph, model: Box<dyn CostModel>, target: &Target) -> Result<Self, Error> {
        let contracts = |call: &Call<'_>| target.contract(call);
        let pick = egraph.problem(&*model, target.threads, &contracts);
        if let Some(first) = pick.unpriced.first() {
            return Err(Error::setting(format!(
                "the cost model `{}` has no price for {} kernel(s): {}; the first is {first}",
                model.name(),
                pick.unpriced.len(),
                model.lacking()
            )));
        }
        sound(&*model)?;
        if let Some(obstacle) = pick.obstacle() {
            return Err(obstacle.into());
        }
        Ok(Self { pick, model: Arc::from(model), target: target.clone() })
    }

    /// The extraction problem: a class of candidates for each value, each candidate with its price.
    pub fn problem(&self) -> &Problem {
        &self.pick.problem
    }

    /// The cost model.
    pub fn model(&self) -> &dyn CostModel {
        &*self.model
    }

    /// Chooses a program.
    ///
    /// # Errors
    /// No program can run, or no plan that was found keeps to the limits.
    pub fn choose(&self, choice: &Choice) -> Result<Chosen, Error> {
        let (trial, objective) = choose(&self.chooser(choice), choice)?;
        Ok(self.chosen(trial, objective))
    }

    /// What tries programs and their plans, by the prices as they are.
    pub(super) fn chooser<'s>(&'s self, choice: &'s Choice) -> Chooser<'s> {
        Chooser {
            pick: &self.pick,
            problem: &self.pick.problem,
            effort: Effort::new(&*choice.extractor),
            model: &*self.model,
            target: &self.target,
            planning: &choice.planning,
            worth: choice.worth,
        }
    }

    fn chosen(&self, trial: Trial, objective: Option<Objective>) -> Chosen {
        // The plan of the trial said what the program costs. The pass `plan` makes the plan that runs.
        let Trial { extraction, program, within, .. } = trial;
        let sources = sources(&self.pick, &program);
        let missing = self.pick.missing.clone();
        let (model, target) = (Arc::clone(&self.model), self.target.clone());
        Chosen {
            extraction,
            objective,
            program: program.graph,
            sources,
            missing,
            model,
            target,
            within: Some(within),
        }
    }
}

/// The program that a choice asks for, and the account of time and memory where memory is weighed.
pub(super) fn choose(chooser: &Chooser<'_>, choice: &Choice) -> Result<(Trial, Option<Objective>), Error> {
    let limit = &chooser.planning.limits;
    if choice.worth > 0.0 {
        let (trial, objective) = memory::cheapest(chooser, limit)?;
        return Ok((trial, Some(objective)));
    }
    let trial = if limit.is_none() {
        let any = chooser.best(chooser.problem, &Room::default())?;
        any.ok_or_else(|| Error::Extract(NOTHING.into()))?
    } else {
        memory::within(chooser, limit)?
    };
    Ok((trial, None))
}

/// What a cost model says of each step of some plans, which others may have chosen. `None` for a step that it has no
/// price for.
///
/// # Errors
/// A kernel that the target does not have; what went wrong while the model was asked.
pub fn estimates(
    plans: &[&Plan],
    model: &dyn CostModel,
    target: &Target,
) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let contract = |call: &Call<'_>| target.contract(call);
    let one = |step: &Step| step.price(model, target.threads, &contract).map_err(Error::setting);
    let prices = plans.iter().map(|plan| plan.steps.iter().map(one).collect()).collect();
    sound(model)?;
    prices
}

/// Reports what went wrong while kernels were priced.
pub(super) fn sound(model: &dyn CostModel) -> Result<(), Error> {
    match model.trouble() {
        Some(why) => Err(Error::setting(format!("the cost model `{}`: {why}", model.name()))),
        None => Ok(()),
    }
}

//! An e-graph whose kernels have prices, and the choice of one of its programs.

use super::chosen::{Chosen, sources};
use super::forms::Forms;
use super::objective::Objective;
use super::planning::Planning;
use super::search::{Chooser, Effort, Room, Trial, memory};
use super::target::Target;
use crate::cost::CostModel;
use crate::egraph::{EGraph, Pick};
use crate::error::Error;
use crate::extract::{Exact, Extractor, Problem};
use crate::op::Call;
use crate::plan::{Plan, Step};
use crate::session::Held;
use std::sync::Arc;

/// The settings for choosing one program of an e-graph.
#[derive(Clone)]
pub struct Choice {
    /// The extractor.
    pub extractor: Arc<dyn Extractor>,
    /// Milliseconds that a mebibyte of the host's memory is worth: of the arena, and of the constants that are kept.
    /// At 0 the fastest program within the limits of `planning` is chosen.
    pub worth: f64,
    /// How programs are planned while they are compared. Only a plan shows how much memory and which copies a program
    /// needs.
    pub planning: Planning,
    /// What other plans of the model have in memory.
    pub held: Held,
    /// The share of its time that a kernel costs more if it reads a further form of a weight: one that is not held, while
    /// another form of the weight is.
    pub further_forms: f64,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            extractor: Arc::new(Exact::DEFAULT),
            worth: 0.0,
            planning: Planning::default(),
            held: Held::default(),
            further_forms: 0.0,
        }
    }
}

/// The third stage: every kernel of the e-graph that the target can run, with its price.
pub struct Priced<'a> {
    pub(super) pick: Pick<'a>,
    pub(super) model: Arc<dyn CostModel>,
    pub(super) target: Target,
}

impl<'a> Priced<'a> {
    pub(super) fn new(egraph: &'a EGraph, model: Box<dyn CostModel>, target: &Target) -> Result<Self, Error> {
        let contracts = |call: &Call<'_>| target.contract(call);
        announce(egraph, &*model, target);
        let pick = egraph.problem(&*model, target.threads, &contracts);
        // A model in trouble knows no kernel, and the trouble is what its user should be told.
        sound(&*model)?;
        if let Some(first) = pick.unpriced.first() {
            let why = format!(
                " has no price for {} kernel(s): {}; the first is {first}",
                pick.unpriced.len(),
                model.lacking()
            );
            return Err(Error::CostModel { model: model.name().to_owned(), why });
        }
        if let Some(obstacle) = pick.obstacle() {
            return Err(obstacle.into());
        }
        Ok(Self { pick, model: Arc::from(model), target: target.clone() })
    }

    /// Returns the extraction problem: a class of candidates for each value, with a price for each candidate.
    pub fn problem(&self) -> &Problem {
        &self.pick.problem
    }

    /// Returns the cost model.
    pub fn model(&self) -> &dyn CostModel {
        &*self.model
    }

    /// Chooses a program.
    ///
    /// # Errors
    /// If no program can run, or if no plan within the limits was found.
    pub fn choose(&self, choice: &Choice) -> Result<Chosen, Error> {
        if choice.held.is_empty() || choice.further_forms <= 0.0 {
            let (trial, objective) = choose(&self.chooser(choice), choice)?;
            return Ok(self.chosen(trial, objective));
        }
        let forms = Forms::new(&self.pick, &choice.held, choice.further_forms);
        let chooser = Chooser { problem: &forms.problem, ..self.chooser(choice) };
        let (mut trial, mut objective) = choose(&chooser, choice)?;
        // The result reports time alone. What remains of a bound is a lower bound for all plans of which further forms
        // are not worth less.
        let surcharge = forms.surcharge(&trial.extraction);
        let extraction = &mut trial.extraction;
        extraction.cost -= surcharge;
        extraction.bound = (extraction.bound - surcharge).max(0.0);
        extraction.settle();
        if let Some(objective) = &mut objective {
            objective.seconds -= surcharge;
            objective.bound = (objective.bound - surcharge).max(0.0);
        }
        Ok(self.chosen(trial, objective))
    }

    /// Returns a chooser, which tries programs with their plans by the unchanged prices.
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

    pub(super) fn chosen(&self, trial: Trial, objective: Option<Objective>) -> Chosen {
        // The plan of the trial only served to compute the cost. The pass `plan` makes the plan that runs.
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

/// Tells a cost model that prices kernels in batches which kernels there are.
pub(super) fn announce(egraph: &EGraph, model: &dyn CostModel, target: &Target) {
    if model.begin_batch() {
        let _ = egraph.problem(model, target.threads, &|call: &Call<'_>| target.contract(call));
        model.end_batch();
    }
}

/// Returns the program for a choice, and the sum of time and memory if the choice weighs memory.
pub(super) fn choose(chooser: &Chooser<'_>, choice: &Choice) -> Result<(Trial, Option<Objective>), Error> {
    let limit = &chooser.planning.limits;
    if choice.worth > 0.0 {
        let (trial, objective) = memory::cheapest(chooser, limit)?;
        return Ok((trial, Some(objective)));
    }
    let trial = if limit.is_none() {
        let any = chooser.best(chooser.problem, &Room::default())?;
        any.ok_or(Error::NothingRuns)?
    } else {
        memory::within(chooser, limit)?
    };
    Ok((trial, None))
}

/// Returns the price of each step of some plans by a cost model, which need not be the model that chose the plans. A
/// step without a price is `None`.
///
/// # Errors
/// If the target does not have a kernel, or if the cost model fails.
pub fn estimates(
    plans: &[&Plan],
    model: &dyn CostModel,
    target: &Target,
) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let contract = |call: &Call<'_>| target.contract(call);
    let one = |step: &Step| step.price(model, target.threads, &contract).map_err(Error::from);
    let prices = plans.iter().map(|plan| plan.steps.iter().map(one).collect()).collect();
    sound(model)?;
    prices
}

/// Reports a failure of the cost model while it priced kernels.
pub(super) fn sound(model: &dyn CostModel) -> Result<(), Error> {
    match model.trouble() {
        Some(why) => Err(Error::CostModel { model: model.name().to_owned(), why: format!(": {why}") }),
        None => Ok(()),
    }
}

//! Picks one program among all in the e-graph, by a cost model.
//!
//! What an extraction chose is planned at once: a copy that the plan had to add, or an arena that is too
//! large, goes back into the prices, and the best of what was planned is kept.

mod effort;
mod memory;
mod recorder;
mod room;
mod trial;

pub use memory::{Curve, Objective, Point, too_large};
pub use recorder::Kernel;

use super::pipeline::Pipeline;
use super::{Catalog, Context, Kind, Pass, PassReport, Scope, State};
use crate::cost::pricing::{ByPrices, ByRoofline};
use crate::cost::{CostModel, Given, Machine, Noise, Noisy, Pricing, PricingError};
use crate::egraph::{EGraph, Flip, Pick};
use crate::error::Error;
use crate::extract::{Exact, Extraction, Extractor, Problem};
use crate::graph::Graph;
use crate::host;
use crate::op::Call;
use crate::plan::{Plan, Source, Step};
use crate::ron::{Raw, Reader};
use crate::setting::{self, choose as named};
use crate::table::{Table, Unknown};
use crate::tensor::Device;
use effort::Effort;
use recorder::Recorder;
use room::Room;
use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use trial::{Chooser, Trial, sources};

/// The extraction.
#[derive(Clone, Debug, Serialize)]
pub struct Extract {
    /// What chooses.
    #[serde(serialize_with = "extractor")]
    pub extractor: Arc<dyn Extractor>,
    /// What prices.
    #[serde(serialize_with = "pricing")]
    pub cost: Arc<dyn Pricing>,
    /// How prices are disturbed, to have other good programs.
    pub noise: Option<Noise>,
    /// Milliseconds that a mebibyte of the host's memory is worth: of the arena, and of the constants that are kept.
    pub memory: f64,
}

fn extractor<S: Serializer>(extractor: &Arc<dyn Extractor>, serializer: S) -> Result<S::Ok, S::Error> {
    setting::named(extractor.name(), &**extractor, serializer)
}

fn pricing<S: Serializer>(cost: &Arc<dyn Pricing>, serializer: S) -> Result<S::Ok, S::Error> {
    setting::named(cost.name(), &**cost, serializer)
}

impl Default for Extract {
    fn default() -> Self {
        Self { extractor: Arc::new(Exact::DEFAULT), cost: Arc::new(ByRoofline), noise: None, memory: 0.0 }
    }
}

/// As it is written in a pipeline.
#[derive(Deserialize)]
#[serde(default, rename = "Extract")]
#[derive(Default)]
struct Written<'a> {
    #[serde(borrow)]
    extractor: Option<Raw<'a>>,
    #[serde(borrow)]
    cost: Option<Raw<'a>>,
    #[serde(deserialize_with = "amount")]
    memory: f64,
}

/// A finite number from zero on.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let wrong = || {
        D::Error::custom("must be a number, zero or more\nwrite milliseconds for a mebibyte, such as `0.5`")
    };
    let amount = f64::deserialize(deserializer)?;
    if amount >= 0.0 && amount.is_finite() { Ok(amount) } else { Err(wrong()) }
}

impl Extract {
    /// How it is read: the extractor and the cost model by their names, or with settings of their own.
    pub(super) fn kind() -> Kind {
        Kind::new(|reader, raw, scope| Some(Arc::new(Self::read(reader, raw, scope)?)))
    }

    fn read(reader: &mut Reader<'_>, raw: Raw<'_>, scope: &Scope<'_>) -> Option<Self> {
        let Written { extractor, cost, memory } = reader.settings(raw, &[])?;
        let otherwise = Self::default();
        let written = |value| setting::Written { value, others: &[], folder: scope.folder };
        let extractor = extractor.and_then(|raw| named(&scope.catalog.extractors, reader, written(raw)));
        let cost = cost.and_then(|raw| named(&scope.catalog.pricings, reader, written(raw)));
        // What is not known is reported, and the pass stands where it should all the same.
        Some(Self {
            extractor: extractor.unwrap_or(otherwise.extractor),
            cost: cost.unwrap_or(otherwise.cost),
            noise: None,
            memory,
        })
    }

    /// Prices by the cost model of this name, with its settings where it is the one in use, and with its default
    /// ones otherwise.
    ///
    /// # Errors
    /// A name that no cost model has.
    pub fn price_by(
        &mut self,
        name: &str,
        pricings: &Table<setting::Kind<dyn Pricing>>,
    ) -> Result<(), Unknown> {
        let kind = pricings.find(name)?;
        if self.cost.name() != name {
            self.cost = (kind.plain)();
        }
        Ok(())
    }

    /// Chooses by the extractor of this name, with its settings where it is the one in use, and with its default
    /// ones otherwise.
    ///
    /// # Errors
    /// A name that no extractor has.
    pub fn choose_by(
        &mut self,
        name: &str,
        extractors: &Table<setting::Kind<dyn Extractor>>,
    ) -> Result<(), Unknown> {
        let kind = extractors.find(name)?;
        if self.extractor.name() != name {
            self.extractor = (kind.plain)();
        }
        Ok(())
    }
}

impl Pass for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let egraph = state.egraph.take().unwrap_or_else(|| EGraph::new(&state.graph));
        let model = cost_model(self, context)?;
        let Chosen { extraction, objective, program, plan, sources, missing } =
            choice(&egraph, self, &*model, context)?;
        state.sources = sources;
        state.graph = program;
        state.chosen = Some(plan);
        let report = PassReport::Extract {
            extractor: self.extractor.name().to_owned(),
            cost_model: model.name().to_owned(),
            extraction,
            objective,
            missing,
        };
        state.cost = Some(model);
        Ok(report)
    }
}

/// A program that was chosen, with its plan.
#[derive(Debug)]
pub struct Chosen {
    /// The choice, the copies that the plan adds among its cost.
    pub extraction: Extraction,
    /// What time and memory come to together, where memory is weighed.
    pub objective: Option<Objective>,
    /// The program.
    pub program: Graph,
    /// Its plan.
    pub plan: Plan,
    /// For each node of the program, where it came from.
    sources: Vec<Source>,
    /// Lowered ops that had no kernel: op, reason, how often.
    missing: Vec<(String, String, usize)>,
}

fn choice(
    egraph: &EGraph,
    settings: &Extract,
    model: &dyn CostModel,
    context: &Context<'_>,
) -> Result<Chosen, Error> {
    let chooser = chooser(egraph, &*settings.extractor, model, context)?;
    let (Trial { extraction, program, mut plan }, objective) = choose(&chooser, settings)?;
    let sources = sources(&chooser.pick, &program);
    // Where things came from is asked for the chosen program alone.
    plan.come_from(&program.graph, &sources);
    Ok(Chosen { extraction, objective, program: program.graph, plan, sources, missing: chooser.pick.missing })
}

/// What a pipeline chooses of an e-graph, as compiling does.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn planned(egraph: &EGraph, context: &Context<'_>) -> Result<Chosen, Error> {
    let settings = settings(context)?;
    let model = cost_model(settings, context)?;
    choice(egraph, settings, &*model, context)
}

/// What the cost model of a pipeline says of each step of some plans, which others may have chosen. `None` for
/// a step that it has no price for.
///
/// # Errors
/// A cost model that lacks what it is made of; a kernel that no backend in play has.
pub fn estimates(plans: &[&Plan], context: &Context<'_>) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let model = cost_model(settings(context)?, context)?;
    let contract = |call: &Call<'_>| context.contract(call);
    let one = |step: &Step| step.price(&*model, context.threads, &contract).map_err(Error::setting);
    let prices = plans.iter().map(|plan| plan.steps.iter().map(one).collect()).collect();
    sound(&*model)?;
    prices
}

/// That nothing went wrong while kernels were priced.
fn sound(model: &dyn CostModel) -> Result<(), Error> {
    match model.trouble() {
        Some(why) => Err(Error::setting(format!("the cost model `{}`: {why}", model.name()))),
        None => Ok(()),
    }
}

const NOTHING: &str = "nothing that can be run computes the outputs";

/// The plans of a model from the fastest to the smallest, by the arena of a device, within the pipeline's limits:
/// of each the estimate and that arena. `progress` is told how many of how many million steps are done.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn curve(
    egraph: &EGraph,
    context: &Context<'_>,
    device: Device,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Curve, Error> {
    let settings = settings(context)?;
    let model = cost_model(settings, context)?;
    let chooser = chooser(egraph, &*settings.extractor, &*model, context)?;
    let trials = memory::curve(&chooser, device, &chooser.settings.limits, progress)?;
    let points = trials.iter().map(|trial| Point::of(trial, device)).collect();
    Ok(Curve { points, complete: !chooser.effort.is_spent() })
}

/// Asks about the program that a pipeline chooses: `question` is given all that it was chosen from, what
/// chose, and the choice.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn chosen<R>(
    egraph: &EGraph,
    context: &Context<'_>,
    question: impl FnOnce(&Pick<'_>, &dyn Extractor, &Extraction) -> R,
) -> Result<R, Error> {
    let settings = settings(context)?;
    let model = cost_model(settings, context)?;
    let chooser = chooser(egraph, &*settings.extractor, &*model, context)?;
    let (trial, _) = choose(&chooser, settings)?;
    Ok(question(&chooser.pick, &*settings.extractor, &trial.extraction))
}

/// Asks about the priced e-graph that a pipeline chooses from.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn priced<R>(
    egraph: &EGraph,
    context: &Context<'_>,
    question: impl FnOnce(&Pick<'_>) -> R,
) -> Result<R, Error> {
    let settings = settings(context)?;
    let model = cost_model(settings, context)?;
    Ok(question(&chooser(egraph, &*settings.extractor, &*model, context)?.pick))
}

/// The features of each distinct kernel among which a pipeline chooses, and its price.
///
/// # Errors
/// As compiling, but for kernels without a price; or if the pipeline has no `Extract`.
pub fn features(egraph: &EGraph, context: &Context<'_>) -> Result<Vec<Kernel>, Error> {
    let model = cost_model(settings(context)?, context)?;
    let recorder = Recorder::new(&*model);
    let contracts = |call: &Call<'_>| context.contract(call);
    let _ = egraph.problem(&recorder, context.threads, &contracts);
    sound(&*model)?;
    Ok(recorder.kernels())
}

/// What would be chosen by other prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Supposed {
    /// What is chosen now.
    pub now: Extraction,
    /// What the same program would cost, in seconds.
    pub unchanged: f64,
    /// What would be chosen.
    pub then: Extraction,
    /// Where the two differ.
    pub flips: Vec<Flip>,
}

/// Chooses twice: by the prices of the cost model, and with the price of each candidate multiplied by the
/// factor of its op.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn supposed(
    egraph: &EGraph,
    context: &Context<'_>,
    factor: &dyn Fn(&str) -> f64,
) -> Result<Supposed, Error> {
    let settings = settings(context)?;
    let model = cost_model(settings, context)?;
    let mut chooser = chooser(egraph, &*settings.extractor, &*model, context)?;
    let now = choose(&chooser, settings)?.0.extraction;
    let scaled = chooser.pick.scaled(factor);
    let cost =
        |problem: &Problem| problem.cost(&now.choice).map_err(|error| Error::Extract(error.to_string()));
    // The copies that the plan adds cost what they did.
    let unchanged = cost(&scaled)? + (now.cost - cost(&chooser.pick.problem)?);
    let priced = std::mem::replace(&mut chooser.pick.problem, scaled);
    let then = choose(&chooser, settings)?.0.extraction;
    let flips = chooser.pick.flips((&priced, &now), (&chooser.pick.problem, &then));
    Ok(Supposed { now, unchanged, then, flips })
}

/// The program that the settings ask for, and the account of time and memory where memory is weighed.
fn choose(chooser: &Chooser<'_>, settings: &Extract) -> Result<(Trial, Option<Objective>), Error> {
    let limit = &chooser.settings.limits;
    if settings.memory > 0.0 {
        let (trial, objective) = memory::cheapest(chooser, settings.memory, limit)?;
        return Ok((trial, Some(objective)));
    }
    let trial = if limit.is_none() {
        let any = chooser.best(&chooser.pick.problem, &Room::default())?;
        any.ok_or_else(|| Error::Extract(NOTHING.into()))?
    } else {
        memory::within(chooser, limit)?
    };
    Ok((trial, None))
}

/// Whether the price lists of a pipeline can be read, and its limits are of devices that exist.
/// Programs are started, and tables and fits are read, by a compilation alone.
///
/// # Errors
/// The mistakes of the price lists, or that there are none; the first limit of a device that does not exist.
pub fn check(pipeline: &Pipeline, catalog: &Catalog) -> Result<(), Error> {
    if let Some(plan) = pipeline.plan() {
        catalog.check_limit(&plan.limits)?;
    }
    let Some(extract) = pipeline.extract() else { return Ok(()) };
    let cost: &dyn Any = &*extract.cost;
    if cost.is::<ByPrices>() {
        extract
            .cost
            .model(&Given { prices: &catalog.prices, ..Given::machine(&Machine::NOMINAL) })
            .map_err(setting_error)?;
    }
    Ok(())
}

fn setting_error(error: PricingError) -> Error {
    Error::setting(error.to_string())
}

/// The settings of the extraction.
fn settings<'a>(context: &Context<'a>) -> Result<&'a Extract, Error> {
    context.pipeline.extract().ok_or_else(|| {
        Error::setting(format!("pipeline `{}` has no `Extract`, so nothing is chosen", context.pipeline.name))
    })
}

fn cost_model(settings: &Extract, context: &Context<'_>) -> Result<Box<dyn CostModel>, Error> {
    let given = Given {
        machine: &context.machine,
        measured: context.measured.as_ref(),
        threads: context.threads,
        constants: context.constants,
        prices: &context.catalog.prices,
        validators: &|| host::validators(context.threads, &context.catalog.backends),
    };
    let model = settings.cost.model(&given).map_err(setting_error)?;
    Ok(match settings.noise {
        Some(noise) => Box::new(Noisy::new(model, noise)),
        None => model,
    })
}

/// The choice among the programs of an e-graph, every kernel of it priced.
fn chooser<'a>(
    egraph: &'a EGraph,
    extractor: &'a dyn Extractor,
    model: &'a dyn CostModel,
    context: &'a Context<'a>,
) -> Result<Chooser<'a>, Error> {
    let contracts = |call: &Call<'_>| context.contract(call);
    let pick: Pick<'a> = egraph.problem(model, context.threads, &contracts);
    if let Some(first) = pick.unpriced.first() {
        return Err(Error::setting(format!(
            "the cost model `{}` has no price for {} kernel(s): {}; the first is {first}",
            model.name(),
            pick.unpriced.len(),
            model.lacking()
        )));
    }
    sound(model)?;
    if let Some(obstacle) = pick.obstacle() {
        return Err(obstacle.into());
    }
    let settings = context.pipeline.plan().cloned().unwrap_or_default();
    let effort = Effort::new(extractor);
    Ok(Chooser { pick, effort, model, context, settings, worth: Cell::new(0.0) })
}

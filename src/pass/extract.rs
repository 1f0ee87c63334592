//! Picks one program among all in the e-graph, by a cost model.
//!
//! What an extraction chose is planned at once: a copy that the plan had to add, or an arena that is too
//! large, goes back into the prices, and the best of what was planned is kept.

mod effort;
mod memory;
mod recorder;
mod trial;

pub use memory::{Curve, Objective, Point, too_large};
pub use recorder::Kernel;

use super::pipeline::{Extract as Settings, PassSpec, Pipeline, Plan as PlanSettings};
use super::{Context, Pass, PassReport, State};
use crate::contract::Call;
use crate::cost::{self, CostModel, Fit, Given, Machine, Measured, Noisy, Validators};
use crate::egraph::{EGraph, Flip, Pick};
use crate::error::{Error, Source as Text};
use crate::extract::{self, Extraction, Extractor, Problem};
use crate::graph::Graph;
use crate::host;
use crate::memory::Limit;
use crate::plan::{Plan, Source, Step};
use crate::subprocess::Program;
use crate::tensor::Device;
use effort::Effort;
use recorder::Recorder;
use std::sync::Arc;
use trial::{Chooser, Trial, sources};

/// The extraction.
pub(super) struct Extract(pub Settings);

impl Pass for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let egraph = state.egraph.take().unwrap_or_else(|| EGraph::new(&state.graph));
        let extractor = extractor(&self.0)?;
        let model = cost_model(&self.0, context)?;
        let Chosen { extraction, objective, program, plan, sources, missing } =
            choice(&egraph, &self.0, &*extractor, &*model, context)?;
        state.sources = sources;
        state.graph = program;
        state.chosen = Some(plan);
        let report = PassReport::Extract {
            extractor: extractor.name().to_owned(),
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
    settings: &Settings,
    extractor: &dyn Extractor,
    model: &dyn CostModel,
    context: &Context<'_>,
) -> Result<Chosen, Error> {
    let chooser = chooser(egraph, extractor, model, context)?;
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
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    choice(egraph, settings, &*extractor, &*model, context)
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
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    let chooser = chooser(egraph, &*extractor, &*model, context)?;
    let trials = memory::curve(&chooser, device, &chooser.settings.limit, progress)?;
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
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    let chooser = chooser(egraph, &*extractor, &*model, context)?;
    let (trial, _) = choose(&chooser, settings)?;
    Ok(question(&chooser.pick, &*extractor, &trial.extraction))
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
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    Ok(question(&chooser(egraph, &*extractor, &*model, context)?.pick))
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
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    let mut chooser = chooser(egraph, &*extractor, &*model, context)?;
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
fn choose(chooser: &Chooser<'_>, settings: &Settings) -> Result<(Trial, Option<Objective>), Error> {
    let limit = &chooser.settings.limit;
    if settings.memory > 0.0 {
        let (trial, objective) = memory::cheapest(chooser, settings.memory, limit)?;
        return Ok((trial, Some(objective)));
    }
    let trial = if limit.is_none() {
        let any = chooser.best(&chooser.pick.problem, &Limit::default())?;
        any.ok_or_else(|| Error::Extract(NOTHING.into()))?
    } else {
        memory::within(chooser, limit)?
    };
    Ok((trial, None))
}

/// That there are the extractor and the cost model of a pipeline, each with what it goes by.
///
/// # Errors
/// What there is not.
pub fn check(pipeline: &Pipeline) -> Result<(), Error> {
    for pass in &pipeline.passes {
        let PassSpec::Extract(settings) = pass else { continue };
        extractor(settings)?;
        let (machine, measured) = (Machine::NOMINAL, Measured::default());
        let formula = settings.formula.as_ref();
        let given = Given { measured: Some(&measured), formula, ..Given::machine(&machine) };
        // A program is started, and a fit read, by a compilation alone.
        if settings.process.is_none() && settings.learned.is_none() {
            cost::find(&settings.cost, &given).map_err(Error::setting)?;
        }
    }
    Ok(())
}

/// The settings of the extraction.
fn settings<'a>(context: &Context<'a>) -> Result<&'a Settings, Error> {
    let settings = context.pipeline.passes.iter().find_map(|pass| match pass {
        PassSpec::Extract(settings) => Some(settings),
        _ => None,
    });
    settings.ok_or_else(|| {
        Error::setting(format!("pipeline `{}` has no `Extract`, so nothing is chosen", context.pipeline.name))
    })
}

fn extractor(settings: &Settings) -> Result<Box<dyn Extractor>, Error> {
    let known = extract::find(&settings.extractor)
        .ok_or_else(|| Error::setting(extract::unknown(&settings.extractor)))?;
    let exact = extract::Exact { limits: settings.limits };
    Ok(if known.name() == exact.name() { Box::new(exact) } else { Box::new(known) })
}

fn cost_model(settings: &Settings, context: &Context<'_>) -> Result<Box<dyn CostModel>, Error> {
    let fit = match &settings.learned {
        Some(source) => Some(Arc::new(fit(source, context.threads)?)),
        None => None,
    };
    let given = Given {
        machine: &context.machine,
        measured: context.measured.as_ref(),
        formula: settings.formula.as_ref(),
        program: match &settings.process {
            Some(how) => Some(Arc::new(Program::start(how).map_err(Error::setting)?)),
            None => None,
        },
        fit,
        constants: context.constants,
    };
    let model = cost::find(&settings.cost, &given).map_err(Error::setting)?;
    Ok(match settings.noise {
        Some(noise) => Box::new(Noisy::new(model, noise)),
        None => model,
    })
}

/// A fitted model, read for this machine and so many threads.
fn fit(source: &Text, threads: usize) -> Result<Fit, Error> {
    let Validators { machine, libraries } = host::validators(threads);
    Fit::read(&source.text, &machine, &libraries)
        .map_err(|why| Error::setting(format!("{}: {why}", source.name)))
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
    let settings = context.pipeline.passes.iter().find_map(|pass| match pass {
        PassSpec::Plan(settings) => Some(settings.clone()),
        _ => None,
    });
    let settings: PlanSettings = settings.unwrap_or_default();
    let effort = Effort::new(extractor, self::settings(context)?);
    Ok(Chooser { pick, effort, model, context, settings })
}

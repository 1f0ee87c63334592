//! Picks one program among all in the e-graph, by a cost model.
//!
//! What an extraction chose is planned at once: a copy that the plan had to add, or an arena that is too
//! large, goes back into the prices, and the best of what was planned is kept.

mod memory;
mod trial;

pub use memory::{Point, too_large};

use super::pipeline::{Extract as Settings, PassSpec, Plan as PlanSettings};
use super::{Context, Pass, PassReport, State};
use crate::contract::Call;
use crate::cost::{self, CostModel};
use crate::egraph::{EGraph, Pick};
use crate::error::Error;
use crate::extract::{self, Extraction, Extractor};
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
        let chooser = chooser(&egraph, &*extractor, &*model, context)?;
        let Trial { extraction, program, .. } = choose(&chooser, &self.0)?;
        state.sources = sources(&chooser.pick, &program);
        let missing = chooser.pick.missing;
        state.graph = program.graph;
        let report = PassReport::Extract {
            extractor: extractor.name().to_owned(),
            cost_model: model.name().to_owned(),
            extraction,
            missing,
        };
        state.cost = Some(model);
        Ok(report)
    }
}

const NOTHING: &str = "nothing that can be run computes the outputs";

/// The plans of a model from the fastest to the smallest: of each the estimate and the arena.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn curve(egraph: &EGraph, context: &Context<'_>) -> Result<Vec<Point>, Error> {
    let settings = settings(context)?;
    let extractor = extractor(settings)?;
    let model = cost_model(settings, context)?;
    let chooser = chooser(egraph, &*extractor, &*model, context)?;
    Ok(memory::curve(&chooser)?.iter().map(Point::of).collect())
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
    let trial = choose(&chooser, settings)?;
    Ok(question(&chooser.pick, &*extractor, &trial.extraction))
}

/// The program that the settings ask for.
fn choose(chooser: &Chooser<'_>, settings: &Settings) -> Result<Trial, Error> {
    match chooser.settings.limit {
        limit if settings.memory > 0.0 => memory::cheapest(chooser, settings.memory, limit),
        Some(limit) => memory::within(chooser, limit),
        None => chooser.best(&chooser.pick.problem)?.ok_or_else(|| Error::Extract(NOTHING.into())),
    }
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
    let known = extract::find(&settings.extractor).ok_or_else(|| {
        let known: Vec<&str> = extract::EXTRACTORS.iter().map(|one| one.name()).collect();
        Error::setting(format!(
            "there is no extractor `{}`: there are {}",
            settings.extractor,
            known.join(", ")
        ))
    })?;
    let exact = extract::Exact { limits: settings.limits };
    Ok(if known.name() == exact.name() { Box::new(exact) } else { Box::new(known) })
}

fn cost_model(settings: &Settings, context: &Context<'_>) -> Result<Box<dyn CostModel>, Error> {
    cost::find(&settings.cost, &context.machine, context.measured.as_ref()).map_err(Error::setting)
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
            "the cost model `{}` has no price for {} kernel(s): run `ovolo tune MODEL`; the first is {first}",
            model.name(),
            pick.unpriced.len()
        )));
    }
    if let Some(obstacle) = pick.obstacle() {
        return Err(obstacle.into());
    }
    let settings = context.pipeline.passes.iter().find_map(|pass| match pass {
        PassSpec::Plan(settings) => Some(settings.clone()),
        _ => None,
    });
    let settings: PlanSettings = settings.unwrap_or_default();
    Ok(Chooser { pick, extractor, model, context, settings })
}

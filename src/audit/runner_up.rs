//! The next best of every choice: `explain --runner-up`.

use crate::audit::saturated;
use crate::compile::Options;
use crate::contract::Call;
use crate::cost;
use crate::egraph::RunnerUp;
use crate::error::Error;
use crate::extract::{self, Extractor};
use crate::graph::Graph;
use crate::pass::Context;
use crate::pass::pipeline::PassSpec;

/// The runner-up of every chosen node, the closest call first. One extraction for each step; `progress`
/// is told how many of how many have begun.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn runner_ups(
    graph: &Graph,
    options: &Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<RunnerUp>, Error> {
    let egraph = saturated(graph, options)?;
    let settings = options.pipeline.passes.iter().find_map(|pass| match pass {
        PassSpec::Extract(settings) => Some(settings),
        _ => None,
    });
    let settings = settings.ok_or_else(|| {
        Error::setting(format!("pipeline `{}` has no `Extract`, so nothing is chosen", options.pipeline.name))
    })?;
    let measured = options.measured.as_ref().map(|measured| measured.of(graph));
    let model = cost::find(&settings.cost, &options.machine, measured.as_ref()).map_err(Error::setting)?;
    let known = extract::find(&settings.extractor)
        .ok_or_else(|| Error::setting(format!("there is no extractor `{}`", settings.extractor)))?;
    let exact = extract::Exact { limits: settings.limits };
    let extractor: &dyn Extractor = if known.name() == exact.name() { &exact } else { known };
    let context = Context {
        rules: &options.rules,
        pipeline: &options.pipeline,
        threads: options.threads,
        machine: options.machine,
        measured,
    };
    let contracts = |call: &Call<'_>| context.contract(call);
    let pick = egraph.problem(&*model, options.threads, &contracts);
    let extraction = extractor.extract(&pick.problem).map_err(|error| Error::Extract(error.to_string()))?;
    let mut found = pick.runner_ups(extractor, &extraction, progress);
    found.sort_by(|a, b| a.margin.total_cmp(&b.margin).then_with(|| a.value.cmp(&b.value)));
    Ok(found)
}

//! Checks of a pipeline on this machine, before anything is compiled.

use super::Catalog;
use super::absent::missing;
use super::pipeline::Pipeline;
use super::pricing::ByFit;
use crate::backend::Backends;
use crate::cost::pricing::ByPrices;
use crate::cost::{Fit, Given, Machine};
use crate::error::Error;
use crate::op::Ops;
use std::any::Any;

/// Checks that the price lists of a pipeline can be read, and that its limits name devices of its backends. Only a
/// compilation starts subprocesses and reads tables of times and fitted models.
///
/// # Errors
/// If price lists have mistakes or do not exist, or if a limit names a device of no backend of the pipeline.
pub fn check(pipeline: &Pipeline, catalog: &Catalog, ops: &Ops) -> Result<(), Error> {
    if let Some(plan) = pipeline.plan() {
        catalog.check_limit(&plan.limits, &pipeline.backends)?;
    }
    let Some(extract) = pipeline.extract() else { return Ok(()) };
    let cost: &dyn Any = &*extract.cost;
    if cost.is::<ByPrices>() {
        extract.cost.model(&Given {
            prices: &catalog.prices,
            prices_here: &catalog.prices,
            ops: Some(ops),
            ..Given::machine(&Machine::NOMINAL)
        })?;
    }
    Ok(())
}

/// Returns the backends of a pipeline that have no candidates, each with the reason: they are absent, or the fitted
/// model has no prices for their kernels.
pub fn absent(pipeline: &Pipeline, backends: &Backends) -> Vec<(String, String)> {
    let mut found = missing(&pipeline.backends, backends);
    found.extend(unseen(pipeline, backends));
    found
}

/// Returns the backends of a pipeline that are available, but whose kernels the fitted model has not seen.
fn unseen(pipeline: &Pipeline, backends: &Backends) -> Vec<(String, String)> {
    let cost: Option<&dyn Any> = pipeline.extract().map(|extract| &*extract.cost as &dyn Any);
    let fit = cost.and_then(|cost| cost.downcast_ref::<ByFit>()).and_then(|by| by.fit.as_ref());
    // The cost model itself reports a file that is not a fitted model.
    let Some(seen) = fit.and_then(|source| Fit::backends(&source.text).ok()) else { return Vec::new() };
    let there = |name: &&String| backends.get(name).is_some_and(|backend| backend.found().is_ok());
    let unseen = pipeline.backends.iter().filter(there).filter(|name| !seen.contains(*name));
    unseen.map(|name| (name.clone(), format!("its kernels are no candidates: {UNSEEN}"))).collect()
}

const UNSEEN: &str = "the model of `learned` was fitted on none of them; run `ovolo tune` and `ovolo fit` with a pipeline that has it";

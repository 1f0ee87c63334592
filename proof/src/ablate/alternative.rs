//! Extractors, orders of execution and memory planners, each in place of the pipeline's own.

use super::{By, Cost, Measured, NoProgram, Told};
use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::stage::{Choice, Chosen, Planning};
use std::sync::Arc;
use std::time::Instant;

/// Measures every extractor. The one that the pipeline names keeps its settings; the others have their own.
pub(super) fn extractors(graph: &Graph, options: &Options, told: Told<'_>) -> Result<Vec<Measured>, Error> {
    let saturated = options.saturate(graph)?;
    let own = options.choice(saturated.graph())?;
    let priced = options.price(&saturated)?;
    // Those that need a file or a program are left out, unless the pipeline names one of them.
    let kinds = options.registry.catalog().extractors.iter().map(|(name, kind)| {
        let same = own.extractor.name() == name;
        (name, if same { Arc::clone(&own.extractor) } else { (kind.plain)() })
    });
    let kinds: Vec<_> = kinds.filter(|(_, extractor)| extractor.lacks().is_none()).collect();
    let mut found = Vec::new();
    for (done, (name, extractor)) in kinds.iter().enumerate() {
        told(done, kinds.len(), name);
        let start = Instant::now();
        let chosen = priced.choose(&Choice { extractor: Arc::clone(extractor), ..own.clone() });
        let seconds = start.elapsed().as_secs_f64();
        let cost = chosen
            .map(|chosen| chosen.extraction.cost)
            .map_err(|error| NoProgram::Refused { why: error.to_string() });
        found.push(((*name).to_owned(), cost, Some(seconds)));
    }
    Ok(compared(found))
}

/// Measures every order or every planner by the bytes of the arenas of the plan of one program: the one that the
/// pipeline chooses.
pub(super) fn memory(
    graph: &Graph,
    options: &Options,
    by: By,
    told: Told<'_>,
) -> Result<Vec<Measured>, Error> {
    let saturated = options.saturate(graph)?;
    let choice = options.choice(saturated.graph())?;
    let chosen = options.price(&saturated)?.choose(&choice)?;
    let (own, catalog) = (&choice.planning, options.registry.catalog());
    let plannings: Vec<(&str, Planning)> = match by {
        By::Order => {
            let with = |order: &Arc<_>| Planning { order: Arc::clone(order), ..own.clone() };
            catalog.orders.iter().map(|(name, order)| (name, with(order))).collect()
        }
        _ => {
            let with = |planner: &Arc<_>| Planning { planner: Arc::clone(planner), ..own.clone() };
            catalog.planners.iter().map(|(name, planner)| (name, with(planner))).collect()
        }
    };
    let count = plannings.len();
    let mut found = Vec::new();
    for (done, (name, planning)) in plannings.into_iter().enumerate() {
        told(done, count, name);
        found.push((name.to_owned(), bytes(chosen.clone(), &planning), None));
    }
    Ok(compared(found))
}

/// Returns the bytes of the arenas of a plan.
#[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
fn bytes(chosen: Chosen, planning: &Planning) -> Cost {
    let planned = chosen.plan(planning).map_err(|error| NoProgram::Refused { why: error.to_string() })?;
    Ok(planned.plan.arenas().map(|arena| arena.bytes as f64).sum())
}

/// Compares each one with the best of the others. They are sorted by name.
fn compared(mut found: Vec<(String, Cost, Option<f64>)>) -> Vec<Measured> {
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let least = |except: usize| {
        let others = found.iter().enumerate().filter(|(at, _)| *at != except);
        let costs = others.filter_map(|(_, (_, cost, _))| cost.as_ref().ok().copied());
        costs.min_by(f64::total_cmp).ok_or(NoProgram::Alone)
    };
    let one = |(at, (name, cost, seconds)): (usize, &(String, Cost, Option<f64>))| {
        let without = least(at);
        let used = match (cost, &without) {
            (Ok(cost), Ok(other)) => cost <= other,
            (Ok(_), Err(_)) => true,
            (Err(_), _) => false,
        };
        Measured { name: name.clone(), used, with: cost.clone(), without, seconds: *seconds }
    };
    found.iter().enumerate().map(one).collect()
}

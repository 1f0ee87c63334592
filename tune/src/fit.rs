//! The data to which the cost model `learned` is fitted.

use ovolo::compile::Options;
use ovolo::cost::{CostModel, Example, FEATURES, InPlans, Measured, PriceModel, State, key};
use ovolo::error::Error;
use ovolo::graph::Graph;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the kernels of a model that the table has times for, each once. Skipped and wrong kernels have
/// none.
///
/// # Errors
/// An error if the graph does not verify or if rules fail.
pub fn examples(
    model: &str,
    graph: &Graph,
    options: &Options,
    measured: &Measured,
) -> Result<Vec<Example>, Error> {
    let saturated = options.saturate(graph)?;
    let target = options.context(graph).target();
    let measured = measured.for_graph(graph);
    let prices = Arc::clone(&options.registry.catalog().prices);
    let roofline = PriceModel::new("roofline", options.machine, prices).among(measured.constants);
    let contracts = |call: &ovolo::op::Call<'_>| target.contract(call);
    let pick = saturated.egraph().problem(&roofline, target.threads, &contracts);
    let mut found = BTreeMap::new();
    for kernel in pick.kernels() {
        let Ok(contract) = kernel.call(target.threads, |call| contracts(call)) else { continue };
        kernel.query(target.threads, &contract, |query| {
            let timed = |state| matches!(state, State::Timed | State::Rough);
            let Some(entry) = measured.entry(query).filter(|entry| timed(entry.state)) else { return };
            let Some(estimate) = roofline.seconds(query) else { return };
            let call = key(query);
            found.entry(call.clone()).or_insert_with(|| Example {
                model: model.to_owned(),
                call,
                features: FEATURES.iter().map(|feature| feature.value(query)).collect(),
                estimate,
                constants: if query.constant.contains(&true) { measured.constants } else { 0 },
                seconds: entry.price(),
                within_plans: matches!(entry.in_plans, InPlans::Timed(_)),
            });
        });
    }
    Ok(found.into_values().collect())
}

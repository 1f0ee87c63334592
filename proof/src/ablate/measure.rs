//! Measures all parts of one kind on one model.

use super::part::{By, Measured};
use super::{Told, Worth, alternative, cost, kernel, without};
use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// Measures each part that has to do with a model: rules that changed the e-graph, their files, kernels with a price in
/// it; or all extractors, orders or planners. They come in alphabetical order. `options` is unchanged when this returns.
///
/// # Errors
/// If the model does not compile with all parts.
pub fn measure(graph: &Graph, options: &mut Options, by: By, told: Told<'_>) -> Result<Vec<Measured>, Error> {
    match by {
        By::Rule | By::File => groups(graph, options, by, told),
        By::Kernel => kernel::measure(graph, options, told),
        By::Extractor => alternative::extractors(graph, options, told),
        By::Order | By::Planner => alternative::memory(graph, options, by, told),
    }
}

/// Leaves out rules, one at a time or file by file.
fn groups(graph: &Graph, options: &mut Options, by: By, told: Told<'_>) -> Result<Vec<Measured>, Error> {
    let saturated = options.saturate(graph)?;
    let whole = cost(&saturated, options)?;
    let choice = options.choice(saturated.graph())?;
    let chosen = options.price(&saturated)?.choose(&choice)?;
    let all = options.rules.clone();
    let stems: BTreeMap<&str, &str> =
        all.rules().iter().map(|rule| (rule.name.as_str(), rule.stem())).collect();
    let group = |rule: &str| match by {
        By::File => stems.get(rule).copied().unwrap_or(rule).to_owned(),
        _ => rule.to_owned(),
    };
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for rule in saturated.applied() {
        groups.entry(group(rule)).or_default().push(rule);
    }
    let used: BTreeSet<String> = chosen.rules().into_iter().map(group).collect();
    let worths = without(graph, options, groups.into_iter().collect(), told);
    let measured = |Worth { rule, without }: Worth| Measured {
        used: used.contains(&rule),
        name: rule,
        with: Ok(whole),
        without,
        seconds: None,
    };
    Ok(worths.into_iter().map(measured).collect())
}

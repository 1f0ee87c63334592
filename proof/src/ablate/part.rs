//! What is left out, and what one model costs without it.

use super::{NoProgram, Told, Worth, alternative, cost, kernel, without};
use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// The kind of parts that are left out one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Rules.
    Rule,
    /// All rules of a file.
    File,
    /// All kernels of a lowered op.
    Kernel,
    /// Extractors.
    Extractor,
    /// Orders of execution.
    Order,
    /// Memory planners.
    Planner,
}

/// A text that names no kind of parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of rule, file, kernel, extractor, order, planner")]
pub struct UnknownPart(pub String);

impl By {
    const ALL: [(&'static str, Self); 6] = [
        ("rule", Self::Rule),
        ("file", Self::File),
        ("kernel", Self::Kernel),
        ("extractor", Self::Extractor),
        ("order", Self::Order),
        ("planner", Self::Planner),
    ];

    /// Returns whether the parts are compared by the bytes of a plan, and not by its seconds.
    pub fn counts_bytes(self) -> bool {
        matches!(self, Self::Order | Self::Planner)
    }
}

impl FromStr for By {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, by)| by).ok_or_else(|| UnknownPart(text.to_owned()))
    }
}

impl fmt::Display for By {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(_, by)| by == self).map_or("", |(name, _)| name);
        out.write_str(name)
    }
}

/// A cost: seconds by the cost model, or bytes of memory ([`By::counts_bytes`]); or why there is no plan.
pub type Cost = Result<f64, NoProgram>;

/// One part, measured on one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name of the part.
    pub name: String,
    /// Whether the best plan has it. An extractor, an order or a planner is used if no other one gives less.
    pub used: bool,
    /// The cost with it: of the best plan, or of the plan that this extractor, order or planner gives.
    pub with: Cost,
    /// The cost of the best plan without it.
    pub without: Cost,
    /// The time that the extraction took in seconds, for an extractor.
    pub seconds: Option<f64>,
}

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

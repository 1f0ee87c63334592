//! What each rule is worth: the cost of the best plan without it.

use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::stage::Saturated;

/// A rule, and the cost without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The rule's name.
    pub rule: String,
    /// Seconds by the cost model, or why no plan is found without the rule.
    pub without: Result<f64, NoProgram>,
}

/// Why no plan is found without a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoProgram(pub String);

/// Returns the cost with all rules, and the cost without each rule that changed the e-graph (removing any
/// other rule changes nothing). The rule whose loss costs most comes first. `told` is called before each rule
/// with the number of rules done, the number of all rules, and the rule's name. `options` has its rules back
/// when this returns.
///
/// # Errors
/// An error if the model does not compile with all rules.
pub fn rules(
    graph: &Graph,
    options: &mut Options,
    told: &mut dyn FnMut(usize, usize, &str),
) -> Result<(f64, Vec<Worth>), Error> {
    let saturated = options.saturate(graph)?;
    let whole = cost(&saturated, options)?;
    let all = options.rules.clone();
    let mut worths = Vec::new();
    let applied = saturated.applied();
    for (done, rule) in applied.iter().enumerate() {
        told(done, applied.len(), rule);
        options.rules = all.without(rule);
        let without = options.saturate(graph).and_then(|without| cost(&without, options));
        let without = without.map_err(|error| NoProgram(error.to_string()));
        worths.push(Worth { rule: (*rule).to_owned(), without });
    }
    options.rules = all;
    worths.sort_by(|a, b| {
        let worth = |one: &Worth| *one.without.as_ref().unwrap_or(&f64::INFINITY);
        worth(b).total_cmp(&worth(a)).then_with(|| a.rule.cmp(&b.rule))
    });
    Ok((whole, worths))
}

/// The cost of the program that is chosen of an e-graph.
fn cost(saturated: &Saturated, options: &Options) -> Result<f64, Error> {
    let choice = options.choice(saturated.graph())?;
    Ok(options.price(saturated)?.choose(&choice)?.extraction.cost)
}

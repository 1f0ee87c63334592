//! What each rule is worth: the cost of the best plan without it.

use ovolo::compile::{self, Compilation, Options};
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::pass::PassReport;

/// A rule, and the cost without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The rule's name.
    pub rule: String,
    /// Seconds by the cost model, or why no plan is found without the rule.
    pub without: Result<f64, String>,
}

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
    let with = compile::compile(graph.clone(), options)?;
    let whole = cost(&with);
    let all = options.rules.clone();
    let mut worths = Vec::new();
    let applied = applied(&with);
    let count = applied.len();
    for (done, rule) in applied.into_iter().enumerate() {
        told(done, count, &rule);
        options.rules = all.without(&rule);
        let without = compile::compile(graph.clone(), options);
        let without = without.map(|without| cost(&without)).map_err(|error| error.to_string());
        worths.push(Worth { rule, without });
    }
    options.rules = all;
    worths.sort_by(|a, b| {
        let worth = |one: &Worth| *one.without.as_ref().unwrap_or(&f64::INFINITY);
        worth(b).total_cmp(&worth(a)).then_with(|| a.rule.cmp(&b.rule))
    });
    Ok((whole, worths))
}

fn cost(compilation: &Compilation) -> f64 {
    match compilation.extraction() {
        Some(PassReport::Extract { extraction, .. }) => extraction.cost,
        _ => compilation.plan.seconds(),
    }
}

/// The rules that changed the e-graph.
fn applied(compilation: &Compilation) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for stage in &compilation.stages {
        if let Some(PassReport::Rewrite(phase)) = &stage.report {
            let names = phase.growth.iter().filter(|rule| rule.applied > 0).map(|rule| rule.rule.clone());
            rules.extend(names);
        }
    }
    rules.sort();
    rules.dedup();
    rules
}

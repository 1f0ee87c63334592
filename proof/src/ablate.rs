//! What each rule is worth: the cost of the best program without it.

use ovolo::compile::{self, Compilation, Options};
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::pass::PassReport;

/// A rule, and the cost without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The rule's name.
    pub rule: String,
    /// Seconds by the cost model; or why there is no program without it.
    pub without: Result<f64, NoProgram>,
}

/// Why there is no program without a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoProgram(pub String);

/// The cost with all rules, and without each of those that changed the e-graph (taking away any other changes
/// nothing), the dearest to lose first. `told` hears how many are done of how many, and which
/// is next. The rules of the
/// options are as before when this ends.
///
/// # Errors
/// A model that does not compile with all rules.
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
        let without = without.map(|without| cost(&without)).map_err(|error| NoProgram(error.to_string()));
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

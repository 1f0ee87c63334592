//! What the parts of ovolo are worth: the cost of the best plan without each of them.
//!
//! [`rules`] leaves out one rule at a time, and tells the costs of one model. [`measure`] leaves out rules, files of
//! rules or kernels, or compares extractors, orders of execution or memory planners, for one model; [`rows`] adds up
//! what was measured on several.

mod alternative;
mod kernel;
mod measure;
mod part;
mod row;

pub use measure::measure;
pub use part::{By, Cost, Measured, UnknownPart};
pub use row::{Case, Gain, Row, rows};

use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::stage::Saturated;

/// A rule or a file of rules, and the cost without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The name of the rule, or of the file without folder and extension.
    pub rule: String,
    /// Seconds by the cost model, or why no plan is found without the rule.
    pub without: Result<f64, NoProgram>,
}

/// Why no plan is found without a rule or a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// The model does not compile without it.
    #[error("{why}")]
    Refused {
        /// The message of the compiler.
        why: String,
    },
    /// Nothing else could take its place.
    #[error("no other one gives a plan")]
    Alone,
}

/// The model does not compile.
impl From<Error> for NoProgram {
    fn from(error: Error) -> Self {
        Self::Refused { why: error.to_string() }
    }
}

/// Returns the cost with all rules, and the cost without each rule that changed the e-graph (removing any
/// other rule changes nothing). The rule whose loss costs most comes first. `told` is called before each rule
/// with the number of rules done, the number of all rules, and the rule's name. `options` has its rules back
/// when this returns.
///
/// # Errors
/// An error if the model does not compile with all rules.
pub fn rules(graph: &Graph, options: &mut Options, told: Told<'_>) -> Result<(f64, Vec<Worth>), Error> {
    let saturated = options.saturate(graph)?;
    let whole = cost(&saturated, options)?;
    let applied = saturated.applied();
    let groups = applied.iter().map(|rule| ((*rule).to_owned(), vec![*rule])).collect();
    let mut worths = without(graph, options, groups, told);
    worths.sort_by(|a, b| {
        let worth = |one: &Worth| *one.without.as_ref().unwrap_or(&f64::INFINITY);
        worth(b).total_cmp(&worth(a)).then_with(|| a.rule.cmp(&b.rule))
    });
    Ok((whole, worths))
}

/// A function that is called before each step with the number of steps done, the number of all, and the name of
/// what is left out.
pub type Told<'a> = &'a mut dyn FnMut(usize, usize, &str);

/// Returns the cost without each group of rules, in order. `options` has its rules back when this returns.
fn without(
    graph: &Graph,
    options: &mut Options,
    groups: Vec<(String, Vec<&str>)>,
    told: Told<'_>,
) -> Vec<Worth> {
    let all = options.rules.clone();
    let count = groups.len();
    let mut worths = Vec::new();
    for (done, (name, rules)) in groups.into_iter().enumerate() {
        told(done, count, &name);
        options.rules = rules.iter().fold(all.clone(), |left, rule| left.without(rule));
        let without = options.saturate(graph).and_then(|without| cost(&without, options));
        let without = without.map_err(NoProgram::from);
        worths.push(Worth { rule: name, without });
    }
    options.rules = all;
    worths
}

/// The cost of the program that is chosen of an e-graph.
fn cost(saturated: &Saturated, options: &Options) -> Result<f64, Error> {
    let choice = options.choice(saturated.graph())?;
    Ok(options.price(saturated)?.choose(&choice)?.extraction.cost)
}

//! The pass that applies rules to the e-graph, within fixed limits.

use super::absent::missing;
use super::{Context, Pass, PassReport, Scope, State};
use crate::egraph::Limits;
use crate::error::Error;
use crate::ron::{Reader, Spanned};
use crate::rule::Rule;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Whether rules of backends that are absent on this machine take part in rewriting. Rules of a backend that plans
/// for other machines always take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentRules {
    /// They do not take part. Models are compiled in this way, and questions about a compilation are answered in this
    /// way. No program with kernels of an absent backend can be chosen, and the nodes that its rules add would count
    /// against the limits of the phases.
    #[default]
    LeftOut,
    /// They take part. This is for questions about the rules themselves, whose answers must not depend on the
    /// machine: why a rule does not fire, and how much a rule gains.
    TakePart,
}

/// One phase of rewriting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The name in reports.
    pub name: String,
    /// The names of rule files, without folder and extension, or of single rules.
    pub rules: Vec<Spanned<String>>,
    /// The largest number of rounds.
    #[serde(default = "rounds")]
    pub rounds: usize,
    /// The largest number of e-nodes, for an empty graph.
    #[serde(default = "nodes")]
    pub nodes: usize,
    /// The number of e-nodes by which the limit rises for each node of the graph.
    #[serde(default = "nodes_per_op")]
    pub nodes_per_op: usize,
}

fn rounds() -> usize {
    8
}

fn nodes() -> usize {
    20_000
}

fn nodes_per_op() -> usize {
    200
}

impl Rewrite {
    /// Returns whether the phase names a rule or its file.
    pub fn names(&self, rule: &Rule) -> bool {
        self.rules.iter().any(|name| rule.is_called(name))
    }

    /// Returns the limits of rounds and of e-nodes, for a graph with `graph` nodes.
    pub fn limits(&self, graph: usize) -> Limits {
        Limits { rounds: self.rounds, nodes: self.nodes + self.nodes_per_op * graph }
    }
}

impl Pass for Rewrite {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, scope: &Scope<'_>, reader: &mut Reader<'_>) {
        let Some(rules) = scope.rules else { return };
        for name in &self.rules {
            if let Some(unknown) = rules.unknown(name) {
                reader.push_at(unknown, name.span);
            }
        }
    }

    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error> {
        let mut saturated = state.into_saturated(&self.name)?;
        let mut rules = context.pipeline.select(self, context.rules).map_err(Error::Pipeline)?;
        if context.absent_rules == AbsentRules::LeftOut {
            let backends = &context.catalog.backends;
            let plans_elsewhere =
                |name: &str| backends.get(name).is_some_and(|backend| backend.plans_elsewhere());
            // The report of the compilation names these backends.
            let absent = missing(&context.pipeline.backends, backends);
            for (backend, _) in absent.iter().filter(|(backend, _)| !plans_elsewhere(backend)) {
                rules.retain(|rule| !rule.leads_to(backend));
            }
        }
        let limits = self.limits(saturated.graph().len());
        let start = Instant::now();
        let saturation = saturated.grow(&self.name, &rules, limits, &|| start.elapsed())?.clone();
        Ok((State::Saturated(Box::new(saturated)), PassReport::Rewrite(saturation)))
    }
}

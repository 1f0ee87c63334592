//! Grows the e-graph by rule sets, within hard limits.

use super::absent::missing;
use super::{Context, Pass, PassReport, Scope, State};
use crate::egraph::Limits;
use crate::error::Error;
use crate::ron::{Reader, Spanned};
use crate::rule::Rule;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Whether rules that lead to a backend that this machine lacks take part in rewriting. Rules of a backend that plans for
/// other machines always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentRules {
    /// They do not. This is how models are compiled, and how every question about a compilation is answered: no program
    /// with kernels of that backend can be chosen, and what its rules add would count against the limits of the phases.
    #[default]
    LeftOut,
    /// They do. This is for questions about the rules themselves, whose answers must not depend on what a machine has:
    /// why a rule does not fire, and what a rule is worth.
    TakePart,
}

/// One phase of rewriting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// What reports call it.
    pub name: String,
    /// Rule files, without folder and ending, or single rules.
    pub rules: Vec<Spanned<String>>,
    /// The most rounds.
    #[serde(default = "rounds")]
    pub rounds: usize,
    /// The most e-nodes: so many…
    #[serde(default = "nodes")]
    pub nodes: usize,
    /// …and so many more for each node of the graph.
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
    /// Whether the phase names a rule or its file.
    pub fn names(&self, rule: &Rule) -> bool {
        self.rules.iter().any(|name| rule.is_called(name))
    }

    /// The most rounds, and the most e-nodes for a graph of so many nodes.
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

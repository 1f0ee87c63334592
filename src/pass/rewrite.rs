//! Grows the e-graph by rule sets, within hard limits.

use super::{Context, Pass, PassReport, Scope, State};
use crate::egraph::{EGraph, Limits};
use crate::error::Error;
use crate::ron::{Reader, Spanned};
use crate::rule::Rule;
use serde::{Deserialize, Serialize};
use std::time::Instant;

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

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let mut rules = context.pipeline.select(self, context.rules).map_err(Error::Pipeline)?;
        // What leads to a backend that is not there is not in play; the compilation says so.
        for (backend, _) in super::missing(context.pipeline, &context.catalog.backends) {
            if super::plans_elsewhere(&backend, &context.catalog.backends) {
                continue;
            }
            rules.retain(|rule| !rule.leads_to(&backend));
        }
        let limits = self.limits(state.graph.len());
        let start = Instant::now();
        let egraph = state.egraph.get_or_insert_with(|| EGraph::new(&state.graph));
        let saturation = egraph.saturate(&rules, limits, &|| start.elapsed())?;
        egraph.ended(&self.name, &saturation.stop);
        Ok(PassReport::Rewrite(saturation))
    }
}

//! Grows the e-graph by rule sets, within hard limits.

use super::pipeline::Rewrite as Settings;
use super::{Context, Pass, PassReport, State};
use crate::egraph::{EGraph, Limits};
use crate::error::Error;
use std::time::Instant;

/// One phase of rewriting.
pub(super) struct Rewrite(pub Settings);

impl Pass for Rewrite {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let mut rules = context.pipeline.select(&self.0, context.rules).map_err(Error::Pipeline)?;
        // What leads to a backend that is not there is not in play; the compilation says so.
        for (backend, _) in super::missing(context.pipeline) {
            if super::plans_elsewhere(&backend) {
                continue;
            }
            rules.retain(|rule| !rule.leads_to(&backend));
        }
        let limits =
            Limits { rounds: self.0.rounds, nodes: self.0.nodes + self.0.nodes_per_op * state.graph.len() };
        let start = Instant::now();
        let egraph = state.egraph.get_or_insert_with(|| EGraph::new(&state.graph));
        let saturation = egraph.saturate(&rules, limits, &|| start.elapsed())?;
        egraph.ended(&self.0.name, &saturation.stop);
        Ok(PassReport::Rewrite(saturation))
    }
}

//! Auditing rules: what a rule file says, held against what its rules do.
//!
//! [`example`] runs the examples beside the rules, [`check`] finds rules without a point,
//! [`verify`] checks every rule numerically on generated instances, and random members of the
//! e-graphs of whole models against the models; [`runner_up`] names the next best of every choice,
//! [`what_if`] what would be chosen by other prices, [`curve`] what less memory costs, [`ablate`] what each
//! rule is worth; [`exchange`] writes
//! a model's e-graph for other extractors, [`feature`] what cost models know of its kernels.
pub mod ablate;
pub mod check;
pub mod curve;
pub mod example;
pub mod exchange;
pub mod feature;
pub mod reference;
pub mod runner_up;
pub mod verify;
pub mod what_if;

use crate::compile::Options;
use crate::egraph::{EGraph, Limits};
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::pipeline::PassSpec;
use crate::verify as verifier;

/// The e-graph of a model after all rewriting phases of a pipeline.
pub(crate) fn saturated(graph: &Graph, options: &Options) -> Result<EGraph, Error> {
    let graph = verifier::verify(graph.clone())?.into_inner();
    let mut egraph = EGraph::new(&graph);
    for pass in &options.pipeline.passes {
        if let PassSpec::Rewrite(phase) = pass {
            let rules = options.pipeline.select(phase, &options.rules).map_err(Error::Pipeline)?;
            let limits =
                Limits { rounds: phase.rounds, nodes: phase.nodes + phase.nodes_per_op * graph.len() };
            egraph.saturate(&rules, limits, &|| std::time::Duration::ZERO)?;
        }
    }
    Ok(egraph)
}

//! The cost without the kernels of one op.

use super::{Measured, NoProgram, Told};
use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use std::collections::BTreeSet;

/// Measures every lowered op that has a price in the e-graph. One e-graph serves all of them. An op that the best
/// program does not contain is not worth anything there, so no program is extracted without it.
pub(super) fn measure(graph: &Graph, options: &Options, told: Told<'_>) -> Result<Vec<Measured>, Error> {
    let saturated = options.saturate(graph)?;
    let choice = options.choice(saturated.graph())?;
    let priced = options.price(&saturated)?;
    let chosen = priced.choose(&choice)?;
    let whole = chosen.extraction.cost;
    let used: BTreeSet<&str> = chosen.program.nodes().map(|(_, node)| node.op.name).collect();
    let ops = priced.priced_ops();
    let mut measured = Vec::new();
    for (done, op) in ops.keys().enumerate() {
        told(done, ops.len(), op);
        let without = match used.contains(op) {
            true => priced.without(&choice, op).map(|without| without.cost),
            false => Ok(whole),
        };
        let without = without.map_err(|error| NoProgram::Refused { why: error.to_string() });
        let name = (*op).to_owned();
        measured.push(Measured { name, used: used.contains(op), with: Ok(whole), without, seconds: None });
    }
    Ok(measured)
}

//! A model's saturated, priced e-graph for other extractors: `dump --egraph`.

use super::{Options, saturated};
use crate::error::Error;
use crate::extract::Named;
use crate::graph::Graph;
use crate::pass;

/// The e-graph that a pipeline chooses from, with its prices, before any plan adds copies to them.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn named(graph: &Graph, options: &Options) -> Result<Named, Error> {
    let egraph = saturated(graph, options)?;
    pass::priced(&egraph, &options.context(graph), |pick| pick.named())
}

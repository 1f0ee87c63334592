//! Time against memory: `explain --memory-curve`.

use crate::audit::saturated;
use crate::compile::Options;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::{self, Point};

/// The plans of a model from the fastest to the smallest, each faster than all that are smaller.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn memory_curve(graph: &Graph, options: &Options) -> Result<Vec<Point>, Error> {
    let egraph = saturated(graph, options)?;
    pass::curve(&egraph, &options.context(graph))
}

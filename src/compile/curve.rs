//! Time against memory: `explain --memory-curve`.

use super::{Options, saturated};
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::{self, Curve};
use crate::tensor::Device;

/// The plans of a model from the fastest to the smallest by the arena of a device, each faster than all that are
/// smaller; the fastest is within the pipeline's limits of memory. `progress` is told how many of how many million steps are done.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn memory_curve(
    graph: &Graph,
    options: &Options,
    device: Device,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Curve, Error> {
    let egraph = saturated(graph, options)?;
    pass::curve(&egraph, &options.context(graph), device, progress)
}

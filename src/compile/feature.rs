//! The features of a model's kernels as a table: `ovolo features`.

use super::{Options, saturated};
use crate::cost::FEATURES;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass;

/// The name of the last column: what the cost model says, empty where it says nothing.
pub const SECONDS: &str = "seconds";

/// A line of names, then a line for each distinct kernel among which a pipeline chooses.
///
/// # Errors
/// As compiling, but for kernels without a price; or if the pipeline has no `Extract`.
pub fn table(graph: &Graph, options: &Options) -> Result<Vec<Vec<String>>, Error> {
    let egraph = saturated(graph, options)?;
    let names = FEATURES.iter().map(|feature| feature.name).chain([SECONDS]);
    let mut lines = vec![names.map(str::to_owned).collect()];
    for kernel in pass::features(&egraph, &options.context(graph))? {
        let values = kernel.features.iter().map(ToString::to_string);
        let seconds = kernel.seconds.map(|seconds| seconds.to_string()).unwrap_or_default();
        lines.push(values.chain([seconds]).collect());
    }
    Ok(lines)
}

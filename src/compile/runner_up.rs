//! The next best of every choice: `explain --runner-up`.

use super::{Options, saturated};
use crate::egraph::RunnerUp;
use crate::error::Error;
use crate::graph::Graph;
use crate::op::Call;
use crate::pass;

/// The runner-up of every chosen node, the closest call first. One extraction for each step; `progress`
/// is told how many of how many have begun.
///
/// # Errors
/// As compiling; or if the pipeline has no `Extract`.
pub fn runner_ups(
    graph: &Graph,
    options: &Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<RunnerUp>, Error> {
    let egraph = saturated(graph, options)?;
    let context = options.context(graph);
    let kernels = |call: &Call<'_>| context.contract(call);
    let mut found = pass::chosen(&egraph, &context, |pick, extractor, extraction| {
        pick.runner_ups(extractor, extraction, (options.threads, &kernels), progress)
    })?;
    found.sort_by(|a, b| a.margin.total_cmp(&b.margin).then_with(|| a.value.cmp(&b.value)));
    Ok(found)
}

//! Graphs of operations that cuDNN computes in one kernel: a convolution with its post chain, and attention.
//!
//! A call becomes a [`Graph`], which is plain data: values with sizes, strides and types, and operations on them. The
//! library receives the graph and lists engines that can compute it, the fastest first by its own estimate. Each
//! engine has numerical notes. Engines are skipped if their results differ from run to run, or if they accumulate or
//! read in a lower precision than the call requires. The attribute `engine` of the call says which of the remaining
//! engines runs, so rules choose it. With a device the library tells how much scratch memory an engine needs; without
//! one a plan reserves as much as an engine can need.

mod attention;
mod cached;
mod calls;
mod convolution;
mod descriptor;
mod engine;
mod execute;
mod operation;
mod plan;
#[cfg(test)]
mod test;

use crate::{command, cudnn};
pub(super) use calls::Calls;
pub(super) use execute::Execute;
use operation::Graph;
use ovolo::op::{ALIGN, Call, Contract};
use ovolo::tensor::DType;

/// The scratch bytes that a kernel may need independently of the sizes.
const KERNEL_SCRATCH: usize = 32 << 20;
/// How many copies of its operands a convolution with windows of several pixels may make in scratch memory: engines
/// transform images, weights and results of Winograd's method there, and pad groups to whole vectors.
const WINDOW_COPIES: usize = 4;

/// Returns the graph of a call for a version of the library.
///
/// # Errors
/// If the library has no graph for the call.
fn graph(call: &Call<'_>, version: usize) -> Result<Graph, String> {
    match call.op.name {
        "cudnn.conv-graph" => convolution::graph(call),
        "cudnn.attention" => attention::graph(call, version),
        other => Err(format!("no graph computes `{other}`")),
    }
}

/// Returns the contract of a call: that of its engine if there is a device, and otherwise that of any engine.
///
/// # Errors
/// The reason why there is none; if the library refused, its message.
pub(crate) fn contract(call: &Call<'_>) -> Result<Contract, String> {
    let found = cudnn::opened().map_err(|why| format!("cuDNN is {why}"))?;
    let graph = graph(call, found.calls.version())?;
    let most = max_scratch(call);
    let wanted = match cached::engines(&graph)? {
        Some(engines) => {
            let number = number(call);
            let wanted = engines.get(number).ok_or_else(|| missing_engine(engines.len(), number))?;
            wanted.unwrap_or(most)
        }
        None => most,
    };
    let precision = if graph.tf32 { "tf32".to_owned() } else { call.output.dtype.to_string() };
    Ok(Contract {
        implementation: format!("{precision}-engine-{}", number(call)),
        scratch: command::workspace(wanted.next_multiple_of(ALIGN)),
        ..Contract::default()
    })
}

/// Returns the number of the engine that a call uses.
fn number(call: &Call<'_>) -> usize {
    usize::try_from(call.attrs.expect_int("engine")).unwrap_or(0)
}

fn missing_engine(count: usize, number: usize) -> String {
    format!(
        "cuDNN has {count} engine(s) for this graph, but number {number} is requested: `ovolo tune` finds the \
         existing ones"
    )
}

/// Returns the largest number of scratch bytes that an engine can need, as far as it is known: copies of the operands in
/// another order or type, transforms of them, and the sums. An engine that needs more takes memory of its own, or another
/// one runs instead.
fn max_scratch(call: &Call<'_>) -> usize {
    let bytes = |dtype: DType, count: usize| count * dtype.size().max(4);
    let all = call.inputs.iter().chain([&call.output]).map(|ty| bytes(ty.dtype, ty.shape.count()));
    let window = call.op == "cudnn.conv-graph" && call.inputs[1].shape[2..].iter().any(|size| *size > 1);
    all.sum::<usize>() * if window { WINDOW_COPIES } else { 1 } + KERNEL_SCRATCH
}

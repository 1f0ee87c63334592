//! Graphs of operations that cuDNN computes in one kernel: a convolution with what follows it, and attention.
//!
//! A call becomes a [`Graph`], plain data: values with sizes, strides and types, and operations on them. The library is
//! told of it, and names engines that compute it, the one first that it thinks fastest; what an engine does to the
//! numbers it notes, and engines whose results differ from run to run, or that sum or read in less than the call says,
//! are left out. Which of those that remain a call takes is its attribute `engine`, and so a choice of rules. How much
//! scratch an engine wants the library says of it, where there is a device; elsewhere a plan holds as much as it can
//! want.

mod attention;
mod calls;
mod convolution;
mod descriptor;
mod engine;
mod execute;
mod operation;
#[cfg(test)]
mod test;
mod told;

use crate::command;
pub(super) use attention::SOFTMAX;
pub(super) use calls::Calls;
pub(super) use execute::Execute;
use operation::Graph;
use ovolo::op::{ALIGN, Call, Contract};
use ovolo::tensor::DType;

/// What kernels may want for themselves, whatever the sizes.
const SLACK: usize = 16 << 20;

/// The graph that a call is.
///
/// # Errors
/// Why the library has none for it.
fn graph(call: &Call<'_>) -> Result<Graph, String> {
    match call.op.name {
        "cudnn.conv-graph" => convolution::graph(call),
        "cudnn.attention" => attention::graph(call),
        other => Err(format!("no graph computes `{other}`")),
    }
}

/// The contract of a call: of its engine where there is a device, of any engine elsewhere.
///
/// # Errors
/// Why there is none, in the library's words where they are its.
pub(crate) fn contract(call: &Call<'_>) -> Result<Contract, String> {
    let graph = graph(call)?;
    attention::supported(call)?;
    let most = most(call);
    let wanted = match told::engines(&graph)? {
        Some(engines) => {
            let number = number(call);
            let wanted = engines.get(number).ok_or_else(|| lacking(engines.len(), number))?;
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

/// Which engine a call takes.
fn number(call: &Call<'_>) -> usize {
    usize::try_from(call.attrs.expect_int("engine")).unwrap_or(0)
}

fn lacking(count: usize, number: usize) -> String {
    format!(
        "cuDNN has {count} engine(s) for this graph, and number {number} is asked for: `ovolo tune` finds those that \
         there are"
    )
}

/// The most bytes of scratch that an engine can want: operands in another order, or wider, and what it sums.
fn most(call: &Call<'_>) -> usize {
    let bytes = |dtype: DType, count: usize| count * dtype.size().max(4);
    let all = call.inputs.iter().chain([&call.output]).map(|ty| bytes(ty.dtype, ty.shape.count()));
    all.sum::<usize>() + SLACK
}

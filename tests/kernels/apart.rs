//! Runs a graph node by node, each value in its own memory.

use super::guarded::Guarded;
use ovolo::backend::{Args, Call};
use ovolo::graph::{Graph, NodeId};
use ovolo::op::INPUT;
use ovolo::team::Team;
use ovolo::tensor::{Tensor, TensorType};
use std::collections::BTreeMap;

/// Computes the outputs of a graph with the kernels of its plan, but without the plan's memory: each result
/// and each scratch is a new buffer of zeros, and no operand shares its buffer with a result.
pub fn run(
    program: &Graph,
    constants: &BTreeMap<NodeId, &Tensor>,
    inputs: &[Tensor],
    threads: usize,
) -> Result<Vec<Tensor>, String> {
    let team = Team::new(threads);
    let mut inputs = inputs.iter();
    let constant = ovolo::plan::constants(program);
    let mut values: BTreeMap<NodeId, Tensor> = BTreeMap::new();
    for (id, node) in program.nodes() {
        if let Some(constant) = constants.get(&id) {
            values.insert(id, (*constant).clone());
            continue;
        }
        if node.op == INPUT {
            values.insert(id, inputs.next().ok_or("an input has no value")?.clone());
            continue;
        }
        if constant[id.index()] {
            // The plan has no step that reads it.
            continue;
        }
        let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input]).collect();
        let value = step(&team, node.op, &node.attrs, &operands, &node.ty)
            .map_err(|why| format!("`{}`: {why}", node.name))?;
        values.insert(id, value);
    }
    let output = |(name, id): (_, NodeId)| {
        values.get(&id).cloned().ok_or_else(|| format!("output `{name}` has no value"))
    };
    program.outputs().map(output).collect()
}

/// Runs one step with separate buffers.
fn step(
    team: &Team,
    op: ovolo::op::Op,
    attrs: &ovolo::attr::Attrs,
    operands: &[&Tensor],
    ty: &TensorType,
) -> Result<Tensor, String> {
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let call = Call { op, attrs, inputs: &types, output: ty, threads: team.threads() };
    let contract = call.contract().map_err(|why| why.to_string())?;
    let mut result = Tensor::zeros(ty.clone());
    if let Some(operand) = contract.view_of {
        let bytes = &operands[operand].bytes()[contract.view_offset..][..ty.bytes()];
        result.bytes_mut().copy_from_slice(bytes);
        return Ok(result);
    }
    let kernel = call.kernel().map_err(|why| why.to_string())?;
    if let Some(operand) = contract.alias {
        result.bytes_mut().copy_from_slice(operands[operand].bytes());
    }
    let mut scratch = Guarded::holding(&vec![0; contract.scratch]);
    let inputs: Vec<*const u8> = operands.iter().map(|operand| operand.bytes().as_ptr()).collect();
    let args =
        Args { inputs: &inputs, output: result.bytes_mut().as_mut_ptr(), scratch: scratch.pointer(), team };
    // SAFETY: kernel and contract are of this call, whose types are those of the tensors; each buffer is
    // separate, and the result starts with the bytes of the operand that its alias requires.
    unsafe { kernel.run(&args) };
    Ok(result)
}

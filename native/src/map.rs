//! `map`, and all elementwise ops on `f32`: a chain of steps over areas that stay in the cache.

use super::args::Shared;
use super::block::{AREA, Block, OPERANDS};
use super::broadcast::Broadcast;
use super::chain::{Action, Area, apply};
use super::padding::Padding;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::{DType, TensorType};
use std::mem::MaybeUninit;

/// The ops of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering { instruction_sets: ISAS, ..Lowering::new("native.map", "map", contract, kernel) }];

/// A call as a chain: the operand that begins it, the steps, and the operand that each step reads.
struct Chain {
    loops: Broadcast<OPERANDS>,
    /// The steps, each with the position of its extra operand.
    steps: Vec<(Action, usize)>,
    /// The op's operands in the order of the loops.
    operands: Vec<usize>,
}

fn plan(call: &Call<'_>) -> Option<Chain> {
    if call.inputs.iter().any(|ty| ty.dtype != DType::F32) || call.output.dtype != DType::F32 {
        return None;
    }
    let name = call.op.own_name();
    let mut operands: Vec<usize> = (0..call.inputs.len()).collect();
    let actions = if name == "map" {
        Action::chain(call.attrs.post()).ok()?
    } else {
        let function = call.op.flags.function?;
        let parameters = call.attrs.parameters(function);
        if function.operands() == 1 {
            vec![Action::function(function, &parameters)?]
        } else {
            // The chain begins with an operand that already has the shape of the result.
            let whole = |n: usize| call.inputs[n].shape == call.output.shape;
            let swap = !whole(0) && whole(1);
            if swap {
                operands.reverse();
            }
            vec![Action::binary(function, swap, &parameters)?]
        }
    };
    let extras = actions.iter().filter(|action| action.binary).count();
    if extras + 1 != call.inputs.len() || call.inputs.len() > OPERANDS {
        return None;
    }
    let scalar = TensorType::plain(DType::F32, [0_usize; 0]);
    let types = std::array::from_fn(|n| operands.get(n).map_or(&scalar, |&operand| call.inputs[operand]));
    let loops = Broadcast::new(call.output, types)?;
    let mut next = 0;
    let steps = actions.into_iter().map(|action| {
        next += usize::from(action.binary);
        let operand = if action.binary { next } else { 0 };
        (action, operand)
    });
    Some(Chain { steps: steps.collect(), loops, operands })
}

/// Returns whether this kernel supports a call of an elementwise op.
pub(super) fn takes(call: &Call<'_>) -> bool {
    plan(call).is_some()
}

/// Returns the contract of the kernel.
pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if !takes(call) {
        return reference::contract(call);
    }
    let in_place = (0..call.inputs.len()).filter(|&n| call.inputs[n] == call.output).collect();
    Ok(Contract { in_place, ..plain_contract("steps") })
}

/// Creates the kernel for an elementwise op on `f32`.
pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match plan(call) {
        None => reference::kernel(call),
        Some(Chain { loops, mut steps, operands }) => {
            // The first step reads the first operand, whose columns must be contiguous.
            let spread = loops.strides[0] != 1 && loops.length > 1;
            if steps.is_empty() {
                steps.push((Action::COPY, 0));
            }
            Ok(Box::new(Map { loops, steps, operands, spread, padding: Padding::new(call.output) }))
        }
    }
}

struct Map {
    loops: Broadcast<OPERANDS>,
    steps: Vec<(Action, usize)>,
    operands: Vec<usize>,
    /// Whether the first operand is not contiguous in the innermost loop.
    spread: bool,
    padding: Padding,
}

impl Kernel for Map {
    unsafe fn run(&self, args: &Args<'_>) {
        let mut inputs = [Shared::new(std::ptr::null_mut()); OPERANDS];
        for (input, &operand) in inputs.iter_mut().zip(&self.operands) {
            *input = Shared::<f32>::input(args, operand);
        }
        let output = Shared::<f32>::output(args);
        Block::all(&self.loops, args.team, |block| {
            // SAFETY: blocks are within the loops, which were computed from the types.
            unsafe { self.block(&inputs, output, block) };
        });
        self.padding.zero(args);
    }
}

impl Map {
    /// # Safety
    /// The block must be in bounds.
    unsafe fn block(&self, inputs: &[Shared<f32>; OPERANDS], output: Shared<f32>, block: &Block) {
        let mut buffer = [MaybeUninit::<f32>::uninit(); AREA];
        let buffer = buffer.as_mut_ptr().cast::<f32>();
        let whole = self.loops.length;
        let mut area = Area {
            source: inputs[0].at(block.offsets[0]),
            source_row: block.row_strides[0],
            target: buffer,
            target_row: block.columns,
            rows: block.rows,
            columns: block.columns,
            extra: std::ptr::null(),
            extra_row: 0,
            extra_column: 0,
        };
        // SAFETY: the buffer has room for a block, and operands are in bounds. All reads of a block come before the
        // one step that writes to the result, so operands may be in place.
        unsafe {
            if self.spread {
                for row in 0..block.rows {
                    for column in 0..block.columns {
                        let from =
                            area.source.add(row * block.row_strides[0] + column * self.loops.strides[0]);
                        *buffer.add(row * block.columns + column) = *from;
                    }
                }
                (area.source, area.source_row) = (buffer, block.columns);
            }
            for (index, (action, extra)) in self.steps.iter().enumerate() {
                if index + 1 == self.steps.len() {
                    (area.target, area.target_row) = (output.at(block.first), whole);
                }
                if action.binary {
                    area.extra = inputs[*extra].at(block.offsets[*extra]);
                    area.extra_row = block.row_strides[*extra];
                    area.extra_column = if block.columns == 1 { 0 } else { self.loops.strides[*extra] };
                }
                apply(action, &area);
                (area.source, area.source_row) = (area.target, area.target_row);
            }
        }
    }
}

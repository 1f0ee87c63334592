//! `concat`: copies contiguous pieces of each operand to the result in turn.
//!
//! In each supported layout an operand consists of contiguous pieces: rows in the default layout, the channels of a
//! pixel in `nhwc`, and the channel blocks of an image in `nChw16c`. Channels that do not fill their blocks are copied
//! by [`lanes`].

mod lanes;

use super::strided::{Copy, Loop, Region};
use super::{plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError, image};
use ovolo::tensor::TensorType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    layouts: Layouts::Typed {
        infer: image::concat,
        samples: &[Form::same("plain"), Form::same("nChw16c"), Form::same("nChw8c"), Form::same("nhwc")],
    },
    ..Lowering::new("native.concat", "concat", contract, kernel)
}];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let axis = call.attrs.expect_int("axis") as usize;
    if call.inputs.len() == 1 {
        return Ok(view_contract(0));
    }
    match operands(call, axis) {
        Some(operands) if operands.iter().all(|(pieces, _)| *pieces == 1) => {
            let parts = offsets(call, &operands);
            Ok(Contract { parts, ..plain_contract("joined") })
        }
        Some(_) => Ok(plain_contract("pieces")),
        None if lanes::takes(call) => Ok(plain_contract("lanes")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = call.attrs.expect_int("axis") as usize;
    let Some(operands) = operands(call, axis) else {
        return if lanes::takes(call) { Ok(lanes::kernel(call)) } else { reference::kernel(call) };
    };
    let whole: usize = operands.iter().map(|(_, length)| length).sum();
    let offsets = offsets(call, &operands);
    let mut first = 0;
    let mut copies = Vec::new();
    for (&(pieces, length), offset) in operands.iter().zip(offsets) {
        let outer = Loop { count: pieces, source: length as isize, target: whole as isize };
        let inner = Loop { count: length, source: 1, target: 1 };
        let region = Region::new([outer, inner], 0, first as isize);
        let copy = Copy::new(region, call.output.dtype.size(), call.threads)?;
        copies.push((copy, (pieces == 1).then_some(offset)));
        first += length;
    }
    Ok(Box::new(Concat(copies)))
}

/// Returns the number of contiguous pieces of each operand and the elements of a piece; `None` if blocks would have to be
/// divided. The last operand need not fill its blocks: the result has the same padding.
fn operands(call: &Call<'_>, axis: usize) -> Option<Vec<(usize, usize)>> {
    let (_, before) = call.inputs.split_last()?;
    let fills = |ty: &&TensorType| ty.shape[axis].is_multiple_of(ty.layout.block(axis));
    if !before.iter().all(fills) {
        return None;
    }
    call.inputs.iter().map(|ty| pieces(ty, axis)).collect()
}

/// Returns the number of contiguous pieces of an operand, with its padding, and the elements of a piece.
fn pieces(ty: &TensorType, axis: usize) -> Option<(usize, usize)> {
    if ty.layout.blocks().iter().filter(|b| b.0 == axis).count() > 1 {
        return None;
    }
    let padded = ty.layout.padded_shape(&ty.shape);
    let order = ty.layout.order(ty.shape.rank());
    let position = order.iter().position(|&dim| dim == axis)?;
    let pieces =
        order[..position].iter().map(|&dim| padded[dim] / ty.layout.block(dim)).product::<usize>().max(1);
    Some((pieces, padded.count() / pieces))
}

/// Returns the offset in bytes of the first piece of each operand in the result.
fn offsets(call: &Call<'_>, operands: &[(usize, usize)]) -> Vec<usize> {
    let lengths = operands.iter().map(|(_, length)| length * call.output.dtype.size());
    lengths.scan(0, |end, length| Some(std::mem::replace(end, *end + length))).collect()
}

/// For each operand the copy, and its offset in the result if the operand is one piece.
struct Concat(Vec<(Copy, Option<usize>)>);

impl Kernel for Concat {
    unsafe fn run(&self, args: &Args<'_>) {
        for ((copy, part), &input) in self.0.iter().zip(args.inputs) {
            if part.is_some_and(|part| std::ptr::eq(input, args.output.wrapping_add(part))) {
                continue; // A preceding kernel has written the operand into the result already.
            }
            // SAFETY: the regions were computed from the types of these buffers.
            unsafe { copy.run(input, args.output, args.team) };
        }
    }
}

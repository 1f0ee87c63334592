//! `transpose`, `expand`, `pad` and `turn-filters`: copies of the elements of an operand to other positions.

use super::strided::{Copy, Loop, Region, fill};
use super::{plain_contract, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::Shape;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.transpose", "transpose", transpose_contract, transpose_kernel),
    Lowering::new("native.expand", "expand", expand_contract, expand_kernel),
    Lowering::new("native.pad", "pad", |_| Ok(plain_contract("strided")), pad_kernel),
    Lowering::new("native.turn-filters", "turn-filters", turn_contract, turn_kernel),
];

fn strides(shape: &Shape) -> Vec<isize> {
    shape.strides().into_iter().map(|stride| stride as isize).collect()
}

fn transpose_region(call: &Call<'_>) -> Option<Region> {
    let (from, to) = (strides(&call.inputs[0].shape), strides(&call.output.shape));
    let loops = call.attrs.expect_ints("perm").iter().zip(call.output.shape.iter()).zip(to);
    Region::new(
        loops.map(|((&dim, &count), target)| Loop { count, source: from[dim as usize], target }),
        0,
        0,
    )
}

fn transpose_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    contract(transpose_region(call))
}

fn transpose_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    kernel(call, transpose_region(call))
}

fn expand_region(call: &Call<'_>) -> Option<Region> {
    let (input, output) = (&call.inputs[0].shape, &call.output.shape);
    let from = strides(input);
    let skip = output.rank() - input.rank();
    let loops = strides(output).into_iter().enumerate().map(|(dim, target)| {
        let repeats = dim < skip || input[dim - skip] == 1;
        Loop { count: output[dim], source: if repeats { 0 } else { from[dim - skip] }, target }
    });
    Region::new(loops, 0, 0)
}

fn expand_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    contract(expand_region(call))
}

fn expand_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    kernel(call, expand_region(call))
}

fn turn_region(call: &Call<'_>) -> Option<Region> {
    let [outputs, inputs, height, width] = call.inputs[0].shape[..] else { return None };
    let groups = usize::try_from(call.attrs.expect_int("groups")).unwrap_or(1);
    let (of_group, window) = (outputs / groups, height * width);
    let turn = |count: usize, source: usize, target: usize| Loop {
        count,
        source: source as isize,
        target: target as isize,
    };
    let loops = [
        turn(groups, of_group * inputs * window, of_group * inputs * window),
        turn(inputs, window, of_group * window),
        turn(of_group, inputs * window, window),
        Loop { count: window, source: -1, target: 1 },
    ];
    Region::new(loops, window.saturating_sub(1) as isize, 0)
}

fn turn_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    contract(turn_region(call))
}

fn turn_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    kernel(call, turn_region(call))
}

fn contract(region: Option<Region>) -> Result<Contract, OpError> {
    Ok(match region.and_then(|region| region.is_run()) {
        Some(0) => view_contract(0),
        _ => plain_contract("strided"),
    })
}

fn kernel(call: &Call<'_>, region: Option<Region>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Rearrange(Copy::new(region, call.output.dtype.size(), call.threads)?)))
}

/// A copy from operand 0.
pub(super) struct Rearrange(pub(super) Copy);

impl Kernel for Rearrange {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the regions were computed from the types of these buffers.
        unsafe { self.0.run(args.inputs[0], args.output, args.team) }
    }
}

fn pad_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let (input, output) = (&call.inputs[0].shape, &call.output.shape);
    let pads = call.attrs.expect_ints("pads");
    let (from, to) = (strides(input), strides(output));
    let (mut source, mut target) = (0, 0);
    let mut loops = Vec::new();
    for dim in 0..input.rank() {
        let begin = pads[dim] as isize;
        // Negative padding removes elements.
        let (skip, first) = ((-begin).max(0), begin.max(0));
        let count = (input[dim] as isize - skip).min(output[dim] as isize - first).max(0) as usize;
        source += skip * from[dim];
        target += first * to[dim];
        loops.push(Loop { count, source: from[dim], target: to[dim] });
    }
    let size = call.output.dtype.size();
    let copy = Copy::new(Region::new(loops, source, target), size, call.threads)?;
    Ok(Box::new(Pad { copy, size, count: if input == output { 0 } else { output.count() } }))
}

struct Pad {
    copy: Copy,
    size: usize,
    /// The number of elements to fill first.
    count: usize,
}

impl Kernel for Pad {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the value is one element, and the regions were computed from the types of these buffers.
        unsafe {
            let value = std::slice::from_raw_parts(args.inputs[1], self.size);
            fill(args.output, value, self.count, args.team);
            self.copy.run(args.inputs[0], args.output, args.team);
        }
    }
}

//! `scatter-elements`, `scatter-nd` and `gather-nd`: elements and slices at positions that an operand holds.
//!
//! Updates of one position follow each other in the order of the operand, so a result never depends on the number of
//! threads: threads divide what no two updates share. A position out of range is clamped, so that a wrong model reads or
//! writes a wrong element but never memory outside the operand.

mod combine;
mod lines;

use self::combine::{Combine, with_combine};
use super::args::{Shared, part, tasks};
use super::gather::Indices;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::team::Team;
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.scatter-elements", "scatter-elements", contract, elements),
    Lowering::new("native.scatter-nd", "scatter-nd", lines::contract, lines::scatter),
    Lowering::new("native.gather-nd", "gather-nd", lines::contract, lines::gather),
];

/// The elements of a run that one task updates at the least.
const RUN: usize = 128;

/// Returns whether there is code for the positions, and for the reduction of elements of this type.
fn takes(call: &Call<'_>) -> bool {
    let positions = matches!(call.inputs[1].dtype, DType::I64 | DType::I32);
    positions && combine::takes(call)
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if !takes(call) {
        return reference::contract(call);
    }
    Ok(Contract { in_place: vec![0], ..plain_contract("lines") })
}

fn elements(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !takes(call) {
        return reference::kernel(call);
    }
    let shape = &call.output.shape;
    let positions = &call.inputs[1].shape;
    let axis = call.attrs.expect_int("axis") as usize;
    let (strides, steps) = (shape.strides(), positions.strides());
    let last = shape.rank() - 1;
    let outside = (0..last).filter(|dim| *dim != axis);
    let run = if axis == last { 1 } else { positions[last] };
    let plan = Elements {
        loops: outside.map(|dim| (positions[dim], strides[dim], steps[dim])).collect(),
        along: positions[axis],
        stride: strides[axis],
        step: steps[axis],
        run,
        indices: Indices::new(call, shape[axis]),
        bytes: call.output.bytes(),
    };
    Ok(with_combine!(call, T, C => Box::new(ScatterElements::<T, C> { plan, types: PhantomData })))
}

/// The loops of updates along an axis.
struct Elements {
    /// The other dimensions but the last: counts, and strides in the result and in the positions.
    loops: Vec<(usize, usize, usize)>,
    /// The positions along the axis, and the strides of the axis in the result and in the positions.
    along: usize,
    stride: usize,
    step: usize,
    /// The length of the last dimension, if that is not the axis.
    run: usize,
    indices: Indices,
    /// The bytes of the result.
    bytes: usize,
}

struct ScatterElements<T, C> {
    plan: Elements,
    types: PhantomData<(T, C)>,
}

impl<T: bytemuck::Pod + Send + Sync, C: Combine<T>> Kernel for ScatterElements<T, C> {
    unsafe fn run(&self, args: &Args<'_>) {
        let plan = &self.plan;
        // SAFETY: operand 0 and the result have this number of bytes.
        unsafe { start(args, plan.bytes) };
        let outside: usize = plan.loops.iter().map(|(count, ..)| count).product();
        let total = outside * plan.along * plan.run;
        if total == 0 || plan.indices.limit == 0 {
            return;
        }
        let (positions, updates) = (Shared::<u8>::input(args, 1), Shared::<T>::input(args, 2));
        let output = Shared::<T>::output(args);
        let chunks = (plan.run / RUN).max(1);
        let units = outside * chunks;
        let parts = tasks(total, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let columns = part(plan.run, chunks, unit % chunks, 1);
                let (mut to, mut from) = (columns.start, columns.start);
                let mut rest = unit / chunks;
                for &(count, stride, step) in plan.loops.iter().rev() {
                    to += rest % count * stride;
                    from += rest % count * step;
                    rest /= count;
                }
                for at in 0..plan.along {
                    let from = from + at * plan.step;
                    // SAFETY: loops are within the positions and updates, each of whose dimensions but the axis is
                    // within the result; positions are clamped to the axis. No other task has these columns.
                    unsafe {
                        if plan.indices.are_equal(positions, from, columns.len()) {
                            let to = to + plan.indices.get(positions, from) * plan.stride;
                            combine_lines::<T, C>(output.at(to), updates.at(from), columns.len());
                            continue;
                        }
                        for column in 0..columns.len() {
                            let row = plan.indices.get(positions, from + column);
                            let to = output.at(to + row * plan.stride + column);
                            *to = C::of(*to, *updates.at(from + column));
                        }
                    }
                }
            }
        });
    }
}

/// Combines a line of updates with a line of the result.
///
/// # Safety
/// Both must have this number of elements, and must not overlap.
#[inline(always)]
unsafe fn combine_lines<T: bytemuck::Pod, C: Combine<T>>(to: *mut T, from: *const T, count: usize) {
    // SAFETY: as the caller promises.
    let (to, from) =
        unsafe { (std::slice::from_raw_parts_mut(to, count), std::slice::from_raw_parts(from, count)) };
    for (to, from) in to.iter_mut().zip(from) {
        *to = C::of(*to, *from);
    }
}

/// Copies operand 0 to the result, unless that is in its place.
///
/// # Safety
/// Both must have this number of bytes.
unsafe fn start(args: &Args<'_>, bytes: usize) {
    if !std::ptr::eq(args.inputs[0], args.output) {
        // SAFETY: as the caller promises; they do not overlap, because the result is not in place.
        unsafe { copy(args.inputs[0], args.output, bytes, args.team) };
    }
}

/// # Safety
/// Both must have this number of bytes, and must not overlap.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, team: &Team) {
    let (from, to) = (Shared::new(from.cast_mut()), Shared::new(to));
    let parts = tasks(bytes / 4, bytes.div_ceil(4096), team.threads()).min(4 * team.threads());
    team.run(parts, |index| {
        let range = part(bytes, parts, index, 64);
        // SAFETY: as the caller promises; parts do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.at(range.start), to.at(range.start), range.len()) };
    });
}

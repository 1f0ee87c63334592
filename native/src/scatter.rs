//! `scatter-elements`, `scatter-nd`, `gather-nd` and `sum-equal-rows`: elements and slices at positions that an operand
//! holds.
//!
//! Updates of one position follow each other in the order of the operand, so a result never depends on the number of
//! threads: threads divide what no two updates share. A position out of range is clamped, so that a wrong model reads or
//! writes a wrong element but never memory outside the operand.

mod combine;
mod equal;
mod lines;

use self::combine::{Combine, Typed, typed};
use super::args::{Shared, part, tasks};
use super::gather::Indices;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{KernelChoice, Lowering, OpError};
use ovolo::team::Team;
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering { choices, ..Lowering::new("native.scatter-elements", "scatter-elements", contract, elements) },
    Lowering {
        choices: lines::choices,
        ..Lowering::new("native.scatter-nd", "scatter-nd", lines::contract, lines::scatter)
    },
    Lowering::new("native.gather-nd", "gather-nd", lines::contract, lines::gather),
    Lowering::new("native.sum-equal-rows", "sum-equal-rows", equal::contract, equal::kernel),
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

/// How threads divide the columns of updates, by sizes and threads alone; rows of equal positions are seen at run time.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    if !takes(call) {
        return Vec::new();
    }
    let (parts, units) = plan(call).parts(call.threads);
    let rows =
        if plan(call).run == 1 { "none: each update has its own position" } else { "seen at run time" };
    vec![
        KernelChoice::new("columns of updates", format!("{units} pieces in {parts} tasks")),
        KernelChoice::new("rows with one position", rows),
    ]
}

fn elements(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !takes(call) {
        return reference::kernel(call);
    }
    Ok(Box::new(plan(call)))
}

fn plan(call: &Call<'_>) -> Elements {
    let shape = &call.output.shape;
    let positions = &call.inputs[1].shape;
    let axis = call.attrs.expect_int("axis") as usize;
    let (strides, steps) = (shape.strides(), positions.strides());
    let last = shape.rank() - 1;
    let outside = (0..last).filter(|dim| *dim != axis);
    let run = if axis == last { 1 } else { positions[last] };
    Elements {
        loops: outside.map(|dim| (positions[dim], strides[dim], steps[dim])).collect(),
        along: positions[axis],
        stride: strides[axis],
        step: steps[axis],
        run,
        indices: Indices::new(call, shape[axis]),
        bytes: call.output.bytes(),
        typed: typed(call),
    }
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
    typed: Typed,
}

impl Elements {
    /// Returns the number of other dimensions' elements, and the number of pieces of each row of updates.
    fn pieces(&self) -> (usize, usize) {
        (self.loops.iter().map(|(count, ..)| count).product(), (self.run / RUN).max(1))
    }

    /// Returns the number of tasks, and the number of pieces of columns that they share.
    fn parts(&self, threads: usize) -> (usize, usize) {
        let (outside, chunks) = self.pieces();
        let units = outside * chunks;
        (tasks(outside * self.along * self.run, units, threads), units)
    }
}

impl Kernel for Elements {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: operand 0 and the result have this number of bytes.
        unsafe { start(args, self.bytes) };
        let (outside, chunks) = self.pieces();
        if outside * self.along * self.run == 0 || self.indices.limit == 0 {
            return;
        }
        let (positions, updates) = (Shared::<u8>::input(args, 1), Shared::<u8>::input(args, 2));
        let output = Shared::<u8>::output(args);
        let (parts, units) = self.parts(args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let columns = part(self.run, chunks, unit % chunks, 1);
                let (mut to, mut from) = (columns.start, columns.start);
                let mut rest = unit / chunks;
                for &(count, stride, step) in self.loops.iter().rev() {
                    to += rest % count * stride;
                    from += rest % count * step;
                    rest /= count;
                }
                let (to, updates) = (output.at(to * self.typed.size), updates.at(from * self.typed.size));
                // SAFETY: loops are within the positions and updates, each of whose dimensions but the axis is within
                // the result. No other task has these columns.
                unsafe { (self.typed.along)(self, positions, from, to, updates, columns.len()) };
            }
        });
    }
}

/// Updates `count` adjacent columns for all positions along the axis, from position `first` on.
///
/// # Safety
/// The positions and the updates must have these elements, and the result these columns.
unsafe fn along<T: bytemuck::Pod, C: Combine<T>>(
    plan: &Elements,
    positions: Shared<u8>,
    first: usize,
    to: *mut u8,
    updates: *const u8,
    count: usize,
) {
    let (to, updates) = (to.cast::<T>(), updates.cast::<T>());
    for at in 0..plan.along {
        let (first, updates) = (first + at * plan.step, updates.wrapping_add(at * plan.step));
        // SAFETY: as the caller promises; positions are clamped to the axis.
        unsafe {
            if plan.indices.are_equal(positions, first, count) {
                combine_lines::<T, C>(
                    to.add(plan.indices.get(positions, first) * plan.stride),
                    updates,
                    count,
                );
                continue;
            }
            for column in 0..count {
                let row = plan.indices.get(positions, first + column);
                let to = to.add(row * plan.stride + column);
                *to = C::of(*to, *updates.add(column));
            }
        }
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

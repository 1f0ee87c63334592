//! Reductions, and the positions of extreme elements.
//!
//! `f32` over neighbouring axes is vectorised, along rows or across columns; a blocked layout is treated as a plain
//! layout of its physical dimensions. So are sums and means of rows that are apart from each other. All other cases are
//! computed element by element, integers as `i64` and floats as `f64`.

mod channels;
mod levels;

use super::args::{Shared, part, tasks};
use super::broadcast::physical;
use super::lanes::{Lanes, widened};
use super::normalize;
use super::scalar::{Scalar, with_scalar};
use super::{IMAGES, ISAS, plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError, image};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.reduce-sum", "reduce-sum", contract, kernel) },
    Lowering {
        layouts: IMAGES,
        check: Some(image::reduces_pixels),
        instruction_sets: ISAS,
        ..Lowering::new("native.reduce-mean", "reduce-mean", contract, kernel)
    },
    channels::OP,
    levels::OP,
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.reduce-max", "reduce-max", contract, kernel) },
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.reduce-min", "reduce-min", contract, kernel) },
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.reduce-prod", "reduce-prod", contract, kernel)
    },
    Lowering::new("native.arg-max", "arg-max", arg_contract, arg_kernel),
    Lowering::new("native.arg-min", "arg-min", arg_contract, arg_kernel),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
}

/// The loops over the kept and the reduced dimensions: (count, stride in elements).
struct Reduction {
    kind: Kind,
    kept: Vec<(usize, usize)>,
    reduced: Vec<(usize, usize)>,
}

fn plan(call: &Call<'_>) -> Option<Reduction> {
    let ty = call.inputs[0];
    if ty.dtype == DType::U64 {
        return None; // Integers are reduced as `i64`.
    }
    let kind = match call.op.name {
        "native.reduce-sum" => Kind::Sum,
        "native.reduce-mean" => Kind::Mean,
        "native.reduce-max" => Kind::Max,
        "native.reduce-min" => Kind::Min,
        _ => Kind::Prod,
    };
    let axes = call.attrs.expect_ints("axes");
    let order = ty.layout.order(ty.shape.rank());
    if order.iter().any(|&dim| axes.contains(&(dim as i64)) && ty.layout.block(dim) > 1) {
        return None;
    }
    let empty = axes.iter().any(|&axis| ty.shape.get(axis as usize) == Some(&0));
    if empty && call.output.layout.pads(&call.output.shape) {
        return None; // The mean of no elements is no number, and the padding of the result is zero.
    }
    let dims = physical(ty);
    let mut stride = 1;
    let mut loops = Vec::new();
    for (position, &count) in dims.iter().enumerate().rev() {
        // The blocks follow the outer dimensions and are never reduced.
        let reduce = order.get(position).is_some_and(|&dim| axes.contains(&(dim as i64)));
        loops.push((reduce, count, stride));
        stride *= count;
    }
    loops.reverse();
    let side = |reduce: bool| {
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for &(_, count, stride) in loops.iter().filter(|l| l.0 == reduce && l.1 != 1) {
            match merged.last_mut() {
                Some(last) if last.1 == stride * count => *last = (last.0 * count, stride),
                _ => merged.push((count, stride)),
            }
        }
        merged
    };
    Some(Reduction { kind, kept: side(false), reduced: side(true) })
}

/// Returns the outer, reduced and inner counts if the reduced axes are neighbours.
fn neighbours(plan: &Reduction) -> Option<(usize, usize, usize)> {
    let [(count, inner)] = plan.reduced[..] else { return None };
    let outer = match plan.kept[..] {
        [] => 1,
        [(outer, stride)] if inner == 1 && stride == count => outer,
        [(_, 1)] => 1,
        [(outer, stride), (_, 1)] if stride == count * inner => outer,
        _ => return None,
    };
    Some((outer, count, inner))
}

/// Returns the length of the rows whose sums are added to a sum or a mean, if the last reduced axis is contiguous.
fn rows(plan: &Reduction) -> Option<usize> {
    let last = plan.reduced.last().filter(|last| last.1 == 1 && last.0 >= SHORT);
    last.filter(|_| matches!(plan.kind, Kind::Sum | Kind::Mean)).map(|last| last.0)
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(plan) = plan(call) else { return reference::contract(call) };
    let float = call.inputs[0].dtype == DType::F32;
    Ok(match plan.reduced.is_empty() {
        true => view_contract(0),
        false if float && neighbours(&plan).is_some() => plain_contract("vectors"),
        false if float && rows(&plan).is_some() => plain_contract("rows"),
        false => plain_contract("elements"),
    })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let Some(plan) = plan(call) else { return reference::kernel(call) };
    if let (DType::F32, Some((outer, count, inner))) = (call.inputs[0].dtype, neighbours(&plan)) {
        return Ok(Box::new(Vectors { kind: plan.kind, outer, count, inner }));
    }
    let count = plan.kept.iter().map(|l| l.0).product();
    if let (DType::F32, Some(row)) = (call.inputs[0].dtype, rows(&plan)) {
        return Ok(Box::new(Rows { plan, row, count }));
    }
    Ok(with_scalar!(call.inputs[0].dtype, T => Box::new(Elements::<T> {
        plan,
        count,
        float: call.inputs[0].dtype.is_float(),
        range: range(call.inputs[0].dtype),
        element: PhantomData,
    })))
}

/// Returns the least and the largest number of an integer type.
fn range(dtype: DType) -> (i64, i64) {
    let (least, most) = dtype.integer_range().unwrap_or_default();
    (i64::try_from(least).unwrap_or(i64::MIN), i64::try_from(most).unwrap_or(i64::MAX))
}

struct Vectors {
    kind: Kind,
    outer: usize,
    count: usize,
    inner: usize,
}

/// The number of columns that one task reduces together.
const COLUMNS: usize = 64;

/// The longest row that is reduced beside others, element after element: a vector of it would be mostly empty.
const SHORT: usize = 16;

impl Kernel for Vectors {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let Self { kind, outer, count, inner } = *self;
        if inner == 1 && count <= SHORT {
            let parts = tasks(outer * count, outer.div_ceil(COLUMNS), args.team.threads());
            args.team.run(parts, |index| {
                let rows = part(outer, parts, index, COLUMNS);
                let (from, to) = (input.at(rows.start * count), output.at(rows.start));
                // SAFETY: rows are within the shapes.
                unsafe { reduce_short_rows(kind, from, to, count, rows.len()) };
            });
            return;
        }
        let groups = inner.div_ceil(COLUMNS);
        let units = outer * groups;
        let parts = tasks(outer * count * inner, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let (row, column) = (unit / groups, unit % groups * COLUMNS);
                let (from, to) = (input.at(row * count * inner + column), output.at(row * inner + column));
                // SAFETY: rows and columns are within the shapes.
                unsafe {
                    if inner == 1 {
                        reduce_row(kind, from, to, count);
                    } else {
                        reduce_columns(kind, from, to, count, inner, COLUMNS.min(inner - column));
                    }
                }
            }
        });
    }
}

widened! {
    /// Reduces `count` contiguous elements to one.
    ///
    /// # Safety
    /// Both buffers must be in bounds.
    unsafe fn reduce_row(kind: Kind, source: *const f32, target: *mut f32, count: usize) = row_on;
}

widened! {
    /// Reduces each of `rows` adjacent rows of `count` elements to one.
    ///
    /// # Safety
    /// Both buffers must be in bounds.
    unsafe fn reduce_short_rows(
        kind: Kind, source: *const f32, target: *mut f32, count: usize, rows: usize,
    ) = short_rows_on;
}

widened! {
    /// Reduces `count` rows, `stride` elements apart, to one of `columns` elements.
    ///
    /// # Safety
    /// All rows must be in bounds.
    unsafe fn reduce_columns(
        kind: Kind, source: *const f32, target: *mut f32, count: usize, stride: usize, columns: usize,
    ) = columns_on;
}

/// # Safety
/// As for [`reduce_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(kind: Kind, source: *const f32, target: *mut f32, count: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let elements = || (0..count).map(|i| *source.add(i));
        *target = match kind {
            Kind::Sum => normalize::sum::<V>(source, count),
            Kind::Mean => normalize::sum::<V>(source, count) / count as f32,
            Kind::Max | Kind::Min => extreme_of_row::<V>(kind, source, count),
            Kind::Prod => elements().product(),
        };
    }
}

/// # Safety
/// As for [`reduce_short_rows`]; the processor must have the instruction set of `V`.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The compiler vectorises it: no vector is named.
unsafe fn short_rows_on<V: Lanes>(
    kind: Kind,
    source: *const f32,
    target: *mut f32,
    count: usize,
    rows: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let (source, target) =
            (std::slice::from_raw_parts(source, rows * count), std::slice::from_raw_parts_mut(target, rows));
        match kind {
            Kind::Sum => each_row(source, target, count, 0.0, |a, b| a + b),
            Kind::Mean => {
                each_row(source, target, count, 0.0, |a, b| a + b);
                target.iter_mut().for_each(|sum| *sum /= count as f32);
            }
            // A NaN replaces every number, and no number replaces it.
            Kind::Max => {
                each_row(
                    source,
                    target,
                    count,
                    f32::NEG_INFINITY,
                    |a, b| if b <= a || a.is_nan() { a } else { b },
                );
            }
            Kind::Min => {
                each_row(
                    source,
                    target,
                    count,
                    f32::INFINITY,
                    |a, b| if b >= a || a.is_nan() { a } else { b },
                );
            }
            Kind::Prod => each_row(source, target, count, 1.0, |a, b| a * b),
        }
    }
}

/// Joins the elements of each row, [`COLUMNS`] rows at a time.
#[inline(always)]
fn each_row(source: &[f32], target: &mut [f32], count: usize, start: f32, join: impl Fn(f32, f32) -> f32) {
    for (group, target) in target.chunks_mut(COLUMNS).enumerate() {
        let rows = &source[group * COLUMNS * count..];
        target.fill(start);
        for at in 0..count {
            for (value, row) in target.iter_mut().zip(rows.chunks_exact(count)) {
                *value = join(*value, row[at]);
            }
        }
    }
}

/// # Safety
/// As for [`reduce_columns`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn columns_on<V: Lanes>(
    kind: Kind,
    source: *const f32,
    target: *mut f32,
    count: usize,
    stride: usize,
    columns: usize,
) {
    // SAFETY: as the caller promises; only the first `columns` lanes are loaded and stored.
    unsafe {
        let mut at = 0;
        while at < columns {
            let rest = columns - at;
            let row = |i: usize| {
                let from = source.add(i * stride + at);
                if rest >= V::COUNT { V::load(from) } else { V::load_first(from, rest) }
            };
            let start = match kind {
                Kind::Sum | Kind::Mean => V::splat(0.0),
                Kind::Max => V::splat(f32::NEG_INFINITY),
                Kind::Min => V::splat(f32::INFINITY),
                Kind::Prod => V::splat(1.0),
            };
            // With four independent chains an addition need not wait for the previous one.
            let mut chains = [start; 4];
            for i in 0..count {
                let chain = &mut chains[i % 4];
                *chain = joined(kind, *chain, row(i));
            }
            let pairs = [joined(kind, chains[0], chains[1]), joined(kind, chains[2], chains[3])];
            let mut value = joined(kind, pairs[0], pairs[1]);
            if kind == Kind::Mean {
                value = value.div(V::splat(count as f32));
            }
            let to = target.add(at);
            if rest >= V::COUNT {
                value.store(to)
            } else {
                value.store_first(to, rest)
            }
            at += V::COUNT;
        }
    }
}

/// Returns the sum, the product or the extreme of each lane.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn joined<V: Lanes>(kind: Kind, a: V, b: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        match kind {
            Kind::Sum | Kind::Mean => a.add(b),
            Kind::Max | Kind::Min => extreme(kind, a, b),
            Kind::Prod => a.mul(b),
        }
    }
}

/// Returns the larger or the smaller number of each lane; NaN where either is NaN.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn extreme<V: Lanes>(kind: Kind, a: V, b: V) -> V {
    // SAFETY: as the caller promises. Where either is NaN, `max` and `min` return their right operand.
    unsafe { V::select(a.equal(a), if kind == Kind::Max { a.max(b) } else { a.min(b) }, a) }
}

/// Returns the largest or the smallest of `count` contiguous elements; NaN if there is one.
///
/// # Safety
/// The elements must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn extreme_of_row<V: Lanes>(kind: Kind, source: *const f32, count: usize) -> f32 {
    let (start, join): (_, fn(f32, f32) -> f32) =
        if kind == Kind::Max { (f32::NEG_INFINITY, f32::max) } else { (f32::INFINITY, f32::min) };
    // SAFETY: as the caller promises.
    unsafe {
        let mut chains = [V::splat(start); 2];
        let mut at = 0;
        while at + 2 * V::COUNT <= count {
            for (i, chain) in chains.iter_mut().enumerate() {
                *chain = extreme(kind, *chain, V::load(source.add(at + i * V::COUNT)));
            }
            at += 2 * V::COUNT;
        }
        let mut lanes = [start; 16];
        extreme(kind, chains[0], chains[1]).store(lanes.as_mut_ptr());
        let rest = (at..count).map(|i| *source.add(i));
        lanes.into_iter().chain(rest).fold(start, |a, b| number(a, b, join))
    }
}

/// Joins two numbers; NaN if either is NaN.
fn number<T: PartialOrd>(a: T, b: T, join: impl Fn(T, T) -> T) -> T {
    match (a.partial_cmp(&a), b.partial_cmp(&b)) {
        (None, _) => a,
        (_, None) => b,
        _ => join(a, b),
    }
}

/// Sums and means of contiguous rows of this length.
struct Rows {
    plan: Reduction,
    row: usize,
    /// The number of results.
    count: usize,
}

impl Kernel for Rows {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let Reduction { kind, kept, reduced } = &self.plan;
        let outer = &reduced[..reduced.len() - 1];
        let rows: usize = outer.iter().map(|l| l.0).product();
        let elements = rows * self.row;
        let parts = tasks(self.count * elements, self.count, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(self.count, parts, index, 1) {
                let from = input.at(offset(kept, at));
                let mut total = 0.0;
                for row in 0..rows {
                    let mut sum = 0.0;
                    // SAFETY: the loops are those of the operand's dimensions.
                    unsafe { reduce_row(Kind::Sum, from.add(offset(outer, row)), &mut sum, self.row) };
                    total += f64::from(sum);
                }
                let divisor = if *kind == Kind::Mean { elements as f64 } else { 1.0 };
                // SAFETY: the kept loops have as many iterations as the result has elements.
                unsafe { *output.at(at) = (total / divisor) as f32 };
            }
        });
    }
}

/// A reduction for any element type and any axes.
struct Elements<T> {
    plan: Reduction,
    count: usize,
    float: bool,
    /// The least and the largest number of an integer type.
    range: (i64, i64),
    element: PhantomData<T>,
}

/// Returns the offset of an iteration of nested loops.
fn offset(loops: &[(usize, usize)], iteration: usize) -> usize {
    let mut rest = iteration;
    let mut offset = 0;
    for (count, stride) in loops.iter().rev() {
        offset += rest % count * stride;
        rest /= count;
    }
    offset
}

impl<T: Scalar> Kernel for Elements<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<T>::input(args, 0), Shared::<T>::output(args));
        let Reduction { kind, kept, reduced } = &self.plan;
        let count: usize = reduced.iter().map(|l| l.0).product();
        let parts = tasks(self.count * count, self.count, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(self.count, parts, index, 1) {
                let from = input.at(offset(kept, at));
                // SAFETY: the loops are those of the operand's dimensions.
                let values = (0..count).map(|i| unsafe { *from.add(offset(reduced, i)) });
                let value = if self.float {
                    let values = values.map(|value| value.cast::<f64>());
                    T::from_f64(match kind {
                        Kind::Sum => values.reduce(|sum, value| sum + value).unwrap_or(0.0),
                        Kind::Mean => values.sum::<f64>() / count as f64,
                        Kind::Max => values.fold(f64::NEG_INFINITY, |a, b| number(a, b, f64::max)),
                        Kind::Min => values.fold(f64::INFINITY, |a, b| number(a, b, f64::min)),
                        Kind::Prod => values.product(),
                    })
                } else {
                    let values = values.map(|value| value.cast::<i64>());
                    T::from_i64(match kind {
                        Kind::Sum => values.fold(0, i64::wrapping_add),
                        Kind::Mean => values.fold(0, i64::wrapping_add) / (count as i64).max(1),
                        Kind::Max => values.fold(self.range.0, i64::max),
                        Kind::Min => values.fold(self.range.1, i64::min),
                        Kind::Prod => values.fold(1, i64::wrapping_mul),
                    })
                };
                // SAFETY: the kept loops have as many iterations as the result has elements.
                unsafe { *output.at(at) = value };
            }
        });
    }
}

fn arg_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if call.inputs[0].layout.is_plain() { Ok(plain_contract("elements")) } else { reference::contract(call) }
}

fn arg_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let ty = call.inputs[0];
    if !ty.layout.is_plain() {
        return reference::kernel(call);
    }
    let axis = call.attrs.expect_int("axis") as usize;
    let (outer, length) = (ty.shape[..axis].iter().product(), ty.shape[axis]);
    let inner = ty.shape[axis + 1..].iter().product();
    let last = call.attrs.expect_int("select-last") != 0;
    let largest = call.op == "native.arg-max";
    Ok(with_scalar!(ty.dtype, T => {
        Box::new(Position::<T> { outer, length, inner, last, largest, element: PhantomData })
    }))
}

struct Position<T> {
    outer: usize,
    length: usize,
    inner: usize,
    /// Whether to return the last of several equal elements.
    last: bool,
    largest: bool,
    element: PhantomData<T>,
}

impl<T: Scalar> Kernel for Position<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<T>::input(args, 0), Shared::<i64>::output(args));
        let units = if self.length == 0 { 0 } else { self.outer * self.inner };
        let parts = tasks(units * self.length, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let from = input.at(unit / self.inner * self.length * self.inner + unit % self.inner);
                // SAFETY: lines are within the operand's shape, and units within the result's.
                unsafe {
                    let (mut best, mut value) = (0, *from);
                    for i in 1..self.length {
                        let next = *from.add(i * self.inner);
                        let better = if self.largest { next > value } else { next < value };
                        if better || (self.last && next == value) {
                            (best, value) = (i, next);
                        }
                    }
                    *output.at(unit) = best as i64;
                }
            }
        });
    }
}

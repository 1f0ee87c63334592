//! `softmax` and `log-softmax` along one axis.

use super::args::{Shared, part, tasks};
use super::lanes::{Lanes, widened};
use super::math;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.softmax", "softmax", contract, kernel) },
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.log-softmax", "log-softmax", contract, kernel)
    },
];

/// Returns whether the kernel supports a call: `f32` in the default layout. If the axis is not the last, columns are
/// computed together.
fn takes(call: &Call<'_>) -> bool {
    call.output.dtype == DType::F32 && call.output.layout.is_plain()
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if !takes(call) {
        return reference::contract(call);
    }
    Ok(Contract { in_place: vec![0], ..plain_contract("rows") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !takes(call) {
        return reference::kernel(call);
    }
    let shape = &call.output.shape;
    let axis = call.attrs.expect_int("axis");
    let axis = if axis < 0 { axis + shape.rank() as i64 } else { axis } as usize;
    Ok(Box::new(Softmax {
        outer: shape[..axis].iter().product(),
        length: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        log: call.op == "native.log-softmax",
    }))
}

struct Softmax {
    outer: usize,
    length: usize,
    inner: usize,
    log: bool,
}

/// The number of columns that are computed together if the axis is not the last.
pub(super) const COLUMNS: usize = 16;

impl Kernel for Softmax {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let Self { outer, length, inner, log } = *self;
        let groups = inner.div_ceil(COLUMNS);
        let units = outer * groups;
        let parts = tasks(outer * length * inner, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let (row, group) = (unit / groups, unit % groups);
                let first = row * length * inner + group * COLUMNS;
                let columns = COLUMNS.min(inner - group * COLUMNS);
                // SAFETY: rows and columns are within the shape.
                unsafe {
                    if inner == 1 {
                        softmax_row(input.at(first), output.at(first), length, log);
                    } else {
                        softmax_columns(input.at(first), output.at(first), length, inner, columns, log);
                    }
                }
            }
        });
    }
}

widened! {
    /// Computes the softmax of `length` contiguous elements. Source and target may be the same.
    ///
    /// # Safety
    /// Both must be in bounds.
    pub(super) unsafe fn softmax_row(source: *const f32, target: *mut f32, length: usize, log: bool) = row_on;
}

widened! {
    /// Computes the softmax of up to 16 columns, whose rows are `stride` elements apart.
    ///
    /// # Safety
    /// Both must be in bounds.
    pub(super) unsafe fn softmax_columns(
        source: *const f32, target: *mut f32, length: usize, stride: usize, columns: usize, log: bool,
    ) = columns_on;
}

/// Returns the largest of `length` elements; NaNs are ignored.
///
/// # Safety
/// The elements must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn greatest<V: Lanes>(source: *const f32, length: usize) -> f32 {
    // SAFETY: as the caller promises.
    unsafe {
        let lowest = V::splat(f32::NEG_INFINITY);
        let (mut first, mut second) = (lowest, lowest);
        let mut at = 0;
        while at + 2 * V::COUNT <= length {
            first = V::load(source.add(at)).max(first);
            second = V::load(source.add(at + V::COUNT)).max(second);
            at += 2 * V::COUNT;
        }
        let mut greatest = first.max(second).greatest();
        while at < length {
            greatest = greatest.max(*source.add(at));
            at += 1;
        }
        greatest
    }
}

/// # Safety
/// As for [`softmax_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(source: *const f32, target: *mut f32, length: usize, log: bool) {
    // SAFETY: as the caller promises.
    unsafe {
        let greatest = greatest::<V>(source, length);
        let shift = V::splat(if greatest == f32::NEG_INFINITY { 0.0 } else { greatest });
        let mut sum = V::splat(0.0);
        let mut at = 0;
        while at < length {
            let rest = length - at;
            let whole = rest >= V::COUNT;
            let x = if whole { V::load(source.add(at)) } else { V::load_first(source.add(at), rest) };
            let e = math::share(x.sub(shift));
            if whole {
                sum = sum.add(e);
                if !log {
                    e.store(target.add(at));
                }
            } else {
                let mut lanes = [0.0_f32; 16];
                e.store_first(lanes.as_mut_ptr(), rest);
                sum = sum.add(V::load(lanes.as_ptr()));
                if !log {
                    e.store_first(target.add(at), rest);
                }
            }
            at += V::COUNT;
        }
        let sum = sum.sum();
        // The logarithm of the sum is far below the resolution of a large element, so it is subtracted last.
        let (from, factor, first, last) = if log {
            (source, V::splat(1.0), shift, V::splat(sum.ln()))
        } else {
            (target.cast_const(), V::splat(1.0 / sum), V::splat(0.0), V::splat(0.0))
        };
        let mut at = 0;
        while at < length {
            let rest = length - at;
            if rest >= V::COUNT {
                V::load(from.add(at)).sub(first).mul(factor).sub(last).store(target.add(at));
            } else {
                let x = V::load_first(from.add(at), rest);
                x.sub(first).mul(factor).sub(last).store_first(target.add(at), rest);
            }
            at += V::COUNT;
        }
    }
}

/// # Safety
/// As for [`softmax_columns`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn columns_on<V: Lanes>(
    source: *const f32,
    target: *mut f32,
    length: usize,
    stride: usize,
    columns: usize,
    log: bool,
) {
    // SAFETY: as the caller promises; only the first `columns` lanes are loaded and stored.
    unsafe {
        let mut first = 0;
        while first < columns {
            let lanes = columns - first;
            let (from, to) = (source.add(first), target.add(first));
            let mut greatest = V::splat(f32::NEG_INFINITY);
            for i in 0..length {
                greatest = V::load_first(from.add(i * stride), lanes).max(greatest);
            }
            let lowest = greatest.equal(V::splat(f32::NEG_INFINITY));
            let greatest = V::select(lowest, V::splat(0.0), greatest);
            let mut sum = V::splat(0.0);
            for i in 0..length {
                let e = math::share(V::load_first(from.add(i * stride), lanes).sub(greatest));
                sum = sum.add(e);
                if !log {
                    e.store_first(to.add(i * stride), lanes);
                }
            }
            let factor = V::splat(1.0).div(sum);
            let log_sum = math::log(sum);
            for i in 0..length {
                let value = if log {
                    V::load_first(from.add(i * stride), lanes).sub(greatest).sub(log_sum)
                } else {
                    V::load_first(to.add(i * stride), lanes).mul(factor)
                };
                value.store_first(to.add(i * stride), lanes);
            }
            first += V::COUNT;
        }
    }
}

//! `gather` and `gather-elements`: selection of elements by an operand of indices.
//!
//! Negative indices count from the end. An index out of range is clamped, so that a wrong model reads a wrong element
//! but never memory outside the operand.

use super::args::{Shared, part, tasks};
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.gather", "gather", contract, gather_kernel),
    Lowering::new("native.gather-elements", "gather-elements", contract, elements_kernel),
];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match call.inputs[1].dtype {
        DType::I64 | DType::I32 => Ok(plain_contract("copy")),
        _ => reference::contract(call),
    }
}

/// The element type and the range of an operand of indices.
#[derive(Clone, Copy)]
pub(super) struct Indices {
    wide: bool,
    pub(super) limit: usize,
}

impl Indices {
    /// Returns the indices of operand 1, which are below `limit`.
    pub(super) fn new(call: &Call<'_>, limit: usize) -> Self {
        Self::of(call.inputs[1].dtype, limit)
    }

    /// Returns indices of 64 or 32 bits, which are below `limit`.
    pub(super) fn of(dtype: DType, limit: usize) -> Self {
        Self { wide: dtype == DType::I64, limit }
    }

    /// Returns whether `count` adjacent indices are the same.
    ///
    /// # Safety
    /// They must be in bounds of the indices.
    #[inline(always)]
    pub(super) unsafe fn are_equal(self, indices: Shared<u8>, at: usize, count: usize) -> bool {
        // All of them are read, because a loop without exits is vectorised.
        macro_rules! differ {
            ($type:ty) => {{
                let first = indices.at(at * size_of::<$type>()).cast::<$type>();
                // SAFETY: as the caller promises.
                (0..count).fold(0, |differ, i| unsafe {
                    differ | (first.add(i).read_unaligned() ^ first.read_unaligned())
                }) != 0
            }};
        }
        count > 0 && !(if self.wide { differ!(i64) } else { differ!(i32) })
    }

    /// Returns an index, clamped to the range.
    ///
    /// # Safety
    /// `at` must be in bounds of the indices.
    #[inline(always)]
    pub(super) unsafe fn get(self, indices: Shared<u8>, at: usize) -> usize {
        // SAFETY: as the caller promises.
        let index = unsafe {
            if self.wide {
                indices.at(at * 8).cast::<i64>().read_unaligned()
            } else {
                i64::from(indices.at(at * 4).cast::<i32>().read_unaligned())
            }
        };
        let limit = self.limit as i64;
        (if index < 0 { index + limit } else { index }).clamp(0, limit - 1) as usize
    }
}

fn gather_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !matches!(call.inputs[1].dtype, DType::I64 | DType::I32) {
        return reference::kernel(call);
    }
    let shape = &call.inputs[0].shape;
    let axis = call.attrs.expect_int("axis") as usize;
    Ok(Box::new(Gather {
        indices: Indices::new(call, shape[axis]),
        outer: shape[..axis].iter().product(),
        picked: call.inputs[1].shape.count(),
        bytes: shape[axis + 1..].iter().product::<usize>() * call.output.dtype.size(),
    }))
}

struct Gather {
    indices: Indices,
    outer: usize,
    picked: usize,
    /// The bytes that one index selects.
    bytes: usize,
}

impl Kernel for Gather {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.indices.limit == 0 {
            return;
        }
        let (data, indices) = (Shared::<u8>::input(args, 0), Shared::<u8>::input(args, 1));
        let output = Shared::<u8>::output(args);
        let rows = self.outer * self.picked;
        let parts = tasks(rows * self.bytes / 4, rows, args.team.threads());
        args.team.run(parts, |index| {
            for row in part(rows, parts, index, 1) {
                let (outer, pick) = (row / self.picked, row % self.picked);
                // SAFETY: rows are within the shapes for which the kernel was created.
                unsafe {
                    let from = outer * self.indices.limit + self.indices.get(indices, pick);
                    let (from, to) = (data.at(from * self.bytes), output.at(row * self.bytes));
                    std::ptr::copy_nonoverlapping(from, to, self.bytes);
                }
            }
        });
    }
}

fn elements_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !matches!(call.inputs[1].dtype, DType::I64 | DType::I32) {
        return reference::kernel(call);
    }
    let axis = call.attrs.expect_int("axis") as usize;
    let (data, output) = (&call.inputs[0].shape, &call.output.shape);
    let mut strides = data.strides();
    strides[axis] = 0;
    Ok(Box::new(Elements {
        indices: Indices::new(call, data[axis]),
        dims: output.iter().copied().zip(strides).collect(),
        count: output.count(),
        stride: data.strides()[axis],
        size: call.output.dtype.size(),
    }))
}

struct Elements {
    indices: Indices,
    /// The result's dimensions, each with its stride in the data (zero along the axis).
    dims: Vec<(usize, usize)>,
    count: usize,
    /// The stride in the data along the axis.
    stride: usize,
    size: usize,
}

impl Kernel for Elements {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.indices.limit == 0 {
            return;
        }
        let (data, indices) = (Shared::<u8>::input(args, 0), Shared::<u8>::input(args, 1));
        let output = Shared::<u8>::output(args);
        let parts = tasks(self.count, self.count, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(self.count, parts, index, 1) {
                let mut rest = at;
                let mut from = 0;
                for &(count, stride) in self.dims.iter().rev() {
                    from += rest % count * stride;
                    rest /= count;
                }
                // SAFETY: the index is within the result's shape, and `get` clamps the index into the data.
                unsafe {
                    let from = from + self.indices.get(indices, at) * self.stride;
                    let (from, to) = (data.at(from * self.size), output.at(at * self.size));
                    std::ptr::copy_nonoverlapping(from, to, self.size);
                }
            }
        });
    }
}

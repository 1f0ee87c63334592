//! `embed`: rows of a table, the sum with what is added to them, and their layer norm, in one pass over the result: a row
//! is in the first-level cache until it is finished.

use super::args::{Shared, part, tasks};
use super::gather::Indices;
use super::lanes::{Lanes, widened};
use super::normalize::layer_row;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering { instruction_sets: ISAS, ..Lowering::new("native.embed", "embed", contract, kernel) }];

/// The operands before those that are added.
const FIXED: usize = 4;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Embed::new(call) {
        Some(_) => Ok(plain_contract("rows")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Embed::new(call) {
        Some(embed) => Ok(Box::new(embed)),
        None => reference::kernel(call),
    }
}

struct Embed {
    positions: Indices,
    /// The sizes of the axes of positions.
    outer: Vec<usize>,
    /// For each operand that is added, the distance between its rows along each axis of positions.
    added: Vec<Vec<usize>>,
    rows: usize,
    length: usize,
    epsilon: f32,
}

impl Embed {
    /// Returns the kernel; `None` for other element types than `f32`, or if part of a row is broadcast.
    fn new(call: &Call<'_>) -> Option<Self> {
        if call.output.dtype != DType::F32 {
            return None;
        }
        let (length, outer) = call.output.shape.split_last()?;
        let steps = |ty: &&TensorType| {
            let (last, own) = ty.shape.split_last()?;
            if last != length {
                return None;
            }
            let mut steps = vec![0; outer.len()];
            let mut step = *length;
            for (axis, size) in own.iter().enumerate().rev() {
                if *size != 1 {
                    steps[outer.len() - own.len() + axis] = step;
                }
                step *= size;
            }
            Some(steps)
        };
        Some(Self {
            positions: Indices::new(call, call.inputs[0].shape[0]),
            outer: outer.to_vec(),
            added: call.inputs[FIXED..].iter().map(steps).collect::<Option<_>>()?,
            rows: outer.iter().product(),
            length: *length,
            epsilon: call.attrs.expect_float("epsilon") as f32,
        })
    }

    /// Returns the offset of the row of an added operand that belongs to a row of the result.
    fn offset(&self, row: usize, steps: &[usize]) -> usize {
        let mut rest = row;
        let mut offset = 0;
        for (size, step) in self.outer.iter().zip(steps).rev() {
            offset += rest % size * step;
            rest /= size;
        }
        offset
    }
}

impl Kernel for Embed {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.positions.limit == 0 {
            return;
        }
        let Self { rows, length, epsilon, .. } = *self;
        let (table, scale, bias) =
            (Shared::<f32>::input(args, 0), Shared::<f32>::input(args, 2), Shared::<f32>::input(args, 3));
        let positions = Shared::<u8>::input(args, 1);
        let added: Vec<Shared<f32>> =
            (0..self.added.len()).map(|one| Shared::input(args, FIXED + one)).collect();
        let output = Shared::<f32>::output(args);
        let parts = tasks(rows * length, rows, args.team.threads());
        args.team.run(parts, |index| {
            for row in part(rows, parts, index, 1) {
                let to = output.at(row * length);
                // SAFETY: rows are within the shapes for which the kernel was created, and `get` clamps positions.
                unsafe {
                    let mut sum = table.at(self.positions.get(positions, row) * length).cast_const();
                    for (operand, steps) in added.iter().zip(&self.added) {
                        add_row(sum, operand.at(self.offset(row, steps)), to, length);
                        sum = to;
                    }
                    layer_row(sum, to, scale.at(0), bias.at(0), length, epsilon);
                }
            }
        });
    }
}

widened! {
    /// Adds two rows. The result may be the first one.
    ///
    /// # Safety
    /// All rows must be in bounds.
    unsafe fn add_row(first: *const f32, second: *const f32, target: *mut f32, length: usize) = add_row_on;
}

/// # Safety
/// As for [`add_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn add_row_on<V: Lanes>(first: *const f32, second: *const f32, target: *mut f32, length: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut at = 0;
        while at + V::COUNT <= length {
            V::load(first.add(at)).add(V::load(second.add(at))).store(target.add(at));
            at += V::COUNT;
        }
        if at < length {
            let rest = length - at;
            let sum = V::load_first(first.add(at), rest).add(V::load_first(second.add(at), rest));
            sum.store_first(target.add(at), rest);
        }
    }
}

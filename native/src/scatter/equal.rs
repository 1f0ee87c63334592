//! `sum-equal-rows`: for each row, the sum of all rows with its position.
//!
//! A task has all rows of some positions. Rows of one position are added in the order of the operand, to the place of
//! the first of them, which is then copied to the places of the others.

use super::super::args::{PARALLEL, Shared};
use super::super::gather::Indices;
use super::super::scalar::has_scalar;
use super::super::{plain_contract, reference};
use super::combine::{Typed, of_numbers};
use super::lines::owner;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::OpError;
use ovolo::tensor::DType;

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(equal) = Equal::new(call) else { return reference::contract(call) };
    let scratch = equal.positions.limit * size_of::<u32>();
    Ok(Contract { scratch, ..plain_contract("first-rows") })
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Equal::new(call) {
        Some(equal) => Ok(Box::new(equal)),
        None => reference::kernel(call),
    }
}

struct Equal {
    positions: Indices,
    rows: usize,
    /// The elements of a row.
    line: usize,
    typed: Typed,
}

impl Equal {
    fn new(call: &Call<'_>) -> Option<Self> {
        let (positions, dtype) = (call.inputs[0], call.output.dtype);
        let known = matches!(positions.dtype, DType::I64 | DType::I32)
            && !matches!(dtype, DType::F16 | DType::BF16)
            && has_scalar(dtype);
        let size = usize::try_from(call.attrs.expect_int("size")).ok()?;
        let rows = positions.shape[0];
        // The numbers of rows have 32 bits.
        if !known || u32::try_from(rows).is_err() {
            return None;
        }
        Some(Self {
            positions: Indices::of(positions.dtype, size),
            rows,
            line: call.output.shape[1..].iter().product(),
            typed: of_numbers(dtype, "add"),
        })
    }
}

impl Kernel for Equal {
    unsafe fn run(&self, args: &Args<'_>) {
        let (rows, bytes) = (self.rows, self.line * self.typed.size);
        if rows * self.line == 0 || self.positions.limit == 0 {
            return;
        }
        let (positions, from) = (Shared::<u8>::input(args, 0), Shared::<u8>::input(args, 1));
        let (output, firsts) = (Shared::<u8>::output(args), Shared::<u32>::scratch(args));
        let owners = if rows * self.line < PARALLEL { 1 } else { args.team.threads() };
        args.team.run(owners, |index| {
            // SAFETY: rows are within the operands and the result, and positions, which are clamped, within the
            // scratch memory. No other task has these positions.
            unsafe {
                let own = |row: usize| {
                    let position = self.positions.get(positions, row);
                    (owner(position, owners) == index).then_some(position)
                };
                for row in 0..rows {
                    let Some(position) = own(row) else { continue };
                    // The scratch memory may hold anything before the first row of a position has written its number.
                    // So what it holds counts only if it is the number of an earlier row with this position.
                    let known = firsts.at(position);
                    let first = *known as usize;
                    if first < row && self.positions.get(positions, first) == position {
                        (self.typed.line)(output.at(first * bytes), from.at(row * bytes), self.line);
                    } else {
                        *known = row as u32;
                        std::ptr::copy_nonoverlapping(from.at(row * bytes), output.at(row * bytes), bytes);
                    }
                }
                for row in 0..rows {
                    let Some(position) = own(row) else { continue };
                    let first = *firsts.at(position) as usize;
                    if first != row {
                        std::ptr::copy_nonoverlapping(
                            output.at(first * bytes),
                            output.at(row * bytes),
                            bytes,
                        );
                    }
                }
            }
        });
    }
}

//! `native.matmul-integer-packed`: a product with weights that were packed into panels of columns before the run.
//!
//! The zero point of the first factor is subtracted from its elements. That of the weights is not: its product with
//! the sum of a row is subtracted from the result, which is the same modulo 2^32.

use super::panel::{COLUMNS, PAIR, Panel, ROWS};
use super::{broadcast, wide};
use crate::args::{Shared, part};
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["plain", "BA16b2a", "plain", "plain"], "plain")]),
    instruction_sets: ISAS,
    ..Lowering::new("native.matmul-integer-packed", "matmul-integer", contract, kernel)
};

/// The rows of a task.
const BAND: usize = 16 * ROWS;
/// The multiply-adds from which on a task is worth waking a thread.
const WORK: usize = 128 * 1024;

struct Product {
    rows: usize,
    columns: usize,
    depth: usize,
    /// The index of the zero point of each row.
    points: Vec<usize>,
    by_column: bool,
    signed: [bool; 2],
}

impl Product {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [a, b, p, q] = call.inputs else { return None };
        let fits = b.shape.rank() == 2
            && b.layout.blocks() == [(1, COLUMNS), (0, 2)]
            && b.layout.order(2) == [1, 0]
            && [a, p, q].iter().all(|ty| ty.layout.is_plain());
        if !fits {
            return None;
        }
        let depth = *a.shape.last()?;
        let rows = &a.shape[..a.shape.rank() - 1];
        let point: Vec<usize> = p.shape.iter().copied().take(p.shape.rank().saturating_sub(1)).collect();
        Some(Self {
            rows: rows.iter().product(),
            columns: b.shape[1],
            depth,
            points: broadcast(&point, rows),
            by_column: q.shape.last().copied().unwrap_or(1) > 1,
            signed: [a, b].map(|ty| ty.dtype == DType::I8),
        })
    }

    fn pairs(&self) -> usize {
        self.depth.div_ceil(2)
    }

    /// Returns the number of 16-bit integers before the sums of the rows in scratch memory.
    fn before_sums(&self) -> usize {
        self.rows * 2 * self.pairs()
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(product) = Product::new(call) else { return reference::contract(call) };
    let scratch = product.before_sums() * size_of::<i16>() + product.rows * size_of::<i32>();
    Ok(Contract { scratch, ..plain_contract("panels") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Product::new(call) {
        Some(product) => Ok(Box::new(product)),
        None => reference::kernel(call),
    }
}

impl Kernel for Product {
    unsafe fn run(&self, args: &Args<'_>) {
        let [a, b, p, q] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let centred = Shared::<i16>::scratch(args);
        let totals = Shared::<i32>::new(centred.at(self.before_sums()).cast());
        let output = Shared::<i32>::output(args);
        let width = 2 * self.pairs();
        let panels = self.columns.div_ceil(COLUMNS);
        let few = self.rows * self.depth * self.columns < WORK;
        let threads = if few { 1 } else { args.team.threads() };
        let parts = if self.rows * self.depth < super::super::args::PARALLEL { 1 } else { threads };
        args.team.run(parts.min(self.rows), |index| {
            for row in part(self.rows, parts.min(self.rows), index, 1) {
                // SAFETY: the row is in bounds of the factor and of the scratch memory, and only this task writes it.
                unsafe {
                    let point = wide(*p.at(self.points[row]), self.signed[0]);
                    let from = std::slice::from_raw_parts(a.at(row * self.depth), self.depth);
                    let to = std::slice::from_raw_parts_mut(centred.at(row * width), width);
                    *totals.at(row) = centre(from, self.signed[0], point, to);
                }
            }
        });
        let bands = self.rows.div_ceil(BAND);
        args.team.share(threads, panels * bands, |_, task| {
            let (panel, band) = (task % panels, task / panels);
            let column = panel * COLUMNS;
            let columns = COLUMNS.min(self.columns - column);
            let mut points = [0_i32; COLUMNS];
            for (at, point) in points[..columns].iter_mut().enumerate() {
                let own = if self.by_column { column + at } else { 0 };
                // SAFETY: there is a zero point for each column, or one for all of them.
                *point = i32::from(wide(unsafe { *q.at(own) }, self.signed[1]));
            }
            let end = ((band + 1) * BAND).min(self.rows);
            for row in (band * BAND..end).step_by(ROWS) {
                let rows = ROWS.min(end - row);
                let mut sums = [[0; COLUMNS]; ROWS];
                let one = Panel {
                    a: centred.at(row * width),
                    a_stride: width,
                    rows,
                    b: b.at(panel * self.pairs() * PAIR),
                    pairs: self.pairs(),
                    signed: self.signed[1],
                };
                // SAFETY: rows and columns are within the factors and the result, and only this task writes them.
                unsafe {
                    one.sums(&mut sums);
                    for (at, sums) in sums[..rows].iter_mut().enumerate() {
                        let total = *totals.at(row + at);
                        for (sum, point) in sums.iter_mut().zip(points) {
                            *sum = sum.wrapping_sub(point.wrapping_mul(total));
                        }
                        let to = output.at((row + at) * self.columns + column);
                        std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
                    }
                }
            }
        });
    }
}

/// Subtracts a zero point from a row, fills the end with zeros, and returns the sum.
fn centre(from: &[u8], signed: bool, point: i16, to: &mut [i16]) -> i32 {
    let mut total = 0_i32;
    let (to, rest) = to.split_at_mut(from.len());
    if signed {
        for (to, from) in to.iter_mut().zip(from) {
            *to = wide(*from, true) - point;
            total = total.wrapping_add(i32::from(*to));
        }
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = wide(*from, false) - point;
            total = total.wrapping_add(i32::from(*to));
        }
    }
    rest.fill(0);
    total
}

//! `native.matmul-integer-packed`: a product with weights that were packed into panels of columns before the run.
//!
//! The kernel multiplies rows of unsigned bytes by signed weights. If the rows are signed, it adds 128 to their
//! elements and zero points; if the weights are unsigned, it subtracts 128 from them and from their zero points. The
//! products themselves leave the zero points out. With elements `a` of a row and `b` of a column, and their zero
//! points `p` and `q`, the sum of `(a - p) * (b - q)` is the sum of `a * b`, minus `p` times the sum of the column,
//! minus `q` times the sum of `a - p`. All of this is exact modulo 2^32.

use super::broadcast;
use super::quad::{COLUMNS, Panel, QUAD, Quads, ROWS, Sums, prepare};
use crate::args::{Shared, part};
use crate::lanes::Isa;
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["plain", "BA16b4a", "plain", "plain"], "plain")]),
    instruction_sets: ISAS,
    ..Lowering::new("native.matmul-integer-packed", "matmul-integer", contract, kernel)
};

/// The rows of a task.
const BAND: usize = 64 * ROWS;
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
    threads: usize,
}

impl Product {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [a, b, p, q] = call.inputs else { return None };
        let fits = b.shape.rank() == 2
            && b.layout.blocks() == [(1, COLUMNS), (0, 4)]
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
            threads: call.threads.max(1),
        })
    }

    fn quads(&self) -> usize {
        self.depth.div_ceil(4)
    }

    /// Returns the bytes of the rows in scratch memory, each with zeros at its end.
    fn bytes(&self) -> usize {
        self.rows * 4 * self.quads()
    }

    /// Returns the bytes of a prepared panel in scratch memory.
    fn panel(&self) -> usize {
        self.quads() * (Panel::WEIGHTS + Panel::RESTS)
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(product) = Product::new(call) else { return reference::contract(call) };
    let rows = product.rows * size_of::<[i32; 2]>() + product.bytes();
    let scratch = rows + product.threads * product.panel();
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
        // The sum of each row, and its zero point.
        let rows = Shared::<[i32; 2]>::scratch(args);
        let unsigned = Shared::<u8>::new(rows.at(self.rows).cast());
        let prepared = Shared::<u8>::new(unsigned.at(self.bytes()));
        let output = Shared::<i32>::output(args);
        let shifts = [if self.signed[0] { 128 } else { 0 }, if self.signed[1] { 0 } else { 128 }];
        let width = 4 * self.quads();
        let panels = self.columns.div_ceil(COLUMNS);
        let few = self.rows * self.depth * self.columns < WORK;
        let threads = if few { 1 } else { args.team.threads().min(self.threads) };
        let parts = if self.rows * self.depth < super::super::args::PARALLEL { 1 } else { threads };
        args.team.run(parts.min(self.rows), |index| {
            for row in part(self.rows, parts.min(self.rows), index, 1) {
                // SAFETY: the row is in bounds of the factor and of the scratch memory, and only this task writes it.
                unsafe {
                    let from = std::slice::from_raw_parts(a.at(row * self.depth), self.depth);
                    let to = std::slice::from_raw_parts_mut(unsigned.at(row * width), width);
                    let point = (*p.at(self.points[row])).wrapping_add(shifts[0]);
                    *rows.at(row) = [copy(from, shifts[0], to), i32::from(point)];
                }
            }
        });
        let bands = self.rows.div_ceil(BAND);
        args.team.share(threads, panels * bands, |thread, task| {
            let (panel, band) = (task % panels, task / panels);
            let column = panel * COLUMNS;
            let columns = COLUMNS.min(self.columns - column);
            let mut points = [0_i32; COLUMNS];
            for (at, point) in points[..columns].iter_mut().enumerate() {
                let own = if self.by_column { column + at } else { 0 };
                // SAFETY: there is a zero point for each column, or one for all of them.
                *point = i32::from(unsafe { *q.at(own) }.wrapping_add(shifts[1]).cast_signed());
            }
            let panel = b.at(panel * self.quads() * QUAD);
            let prepared = prepared.at(thread * self.panel());
            let rests = prepared.wrapping_add(self.quads() * Panel::WEIGHTS).cast();
            let prepared = Panel { weights: prepared.cast(), rests };
            // SAFETY: the panel has columns of this depth, and only this thread uses its part of the scratch memory.
            let facts = unsafe { prepare(panel, self.depth, shifts[1], prepared) };
            let prepared = prepared.or_given(&facts, panel);
            let end = ((band + 1) * BAND).min(self.rows);
            for row in (band * BAND..end).step_by(ROWS) {
                let count = ROWS.min(end - row);
                let mut sums = [[0; COLUMNS]; ROWS];
                let one = Quads {
                    a: unsigned.at(row * width),
                    stride: width,
                    rows: count,
                    b: prepared,
                    quads: self.quads(),
                };
                // SAFETY: rows and columns are within the factors and the result, and only this task writes them.
                unsafe {
                    one.add(&facts, &mut sums);
                    let zeros = Zeros {
                        rows: std::slice::from_raw_parts(rows.at(row), count),
                        points: &points,
                        totals: &facts.totals,
                        depth: self.depth,
                    };
                    zeros.subtract(&mut sums);
                    for (at, sums) in sums[..count].iter().enumerate() {
                        let to = output.at((row + at) * self.columns + column);
                        if columns == COLUMNS {
                            to.cast::<[i32; COLUMNS]>().write(*sums);
                        } else {
                            std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
                        }
                    }
                }
            }
        });
    }
}

/// What zero points subtract from the products of some rows with a panel.
struct Zeros<'a> {
    /// The sum of each row, and its zero point.
    rows: &'a [[i32; 2]],
    /// The zero point of each column.
    points: &'a [i32; COLUMNS],
    /// The sum of each column.
    totals: &'a [i32; COLUMNS],
    depth: usize,
}

impl Zeros<'_> {
    fn subtract(&self, sums: &mut Sums) {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            // SAFETY: the processor has the instructions.
            return unsafe { self.subtract_avx2(sums) };
        }
        self.subtract_on(sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn subtract_avx2(&self, sums: &mut Sums) {
        self.subtract_on(sums);
    }

    #[inline(always)]
    fn subtract_on(&self, sums: &mut Sums) {
        for (sums, [sum_of_row, p]) in sums.iter_mut().zip(self.rows) {
            // The arithmetic is that of 32 bits throughout, which wraps.
            let centred = sum_of_row.wrapping_sub(p.wrapping_mul(self.depth as i32));
            for ((sum, q), total) in sums.iter_mut().zip(self.points).zip(self.totals) {
                *sum = sum.wrapping_sub(p.wrapping_mul(*total)).wrapping_sub(q.wrapping_mul(centred));
            }
        }
    }
}

/// Writes the elements of a row without a sign, with zeros at the end. Returns their sum.
fn copy(from: &[u8], shift: u8, to: &mut [u8]) -> i32 {
    let mut total = 0_i32;
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.wrapping_add(shift);
        total = total.wrapping_add(i32::from(*to));
    }
    to[from.len()..].fill(0);
    total
}

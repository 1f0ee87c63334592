//! Products of levels of which both operands come with a run, such as those of attention, by `vpdpbusd` or AMX.
//!
//! A task packs two panels of a matrix on the right, and multiplies the rows on the left by them, as
//! [`packed`](super::packed) does with weights that were packed before.

use super::matrix::Matrices;
use super::packed::{BAND, Factors, Product, WORK, copy};
use super::pair::PAIR_COLUMNS;
use super::quad::{COLUMNS, QUAD, ROWS, has_avx_vnni, has_vnni};
use crate::args::{PARALLEL, Shared, part};
use crate::plain_contract;
use ovolo::backend::{Args, Call, Contract, Kernel};

/// The fewest columns: with fewer, most of a panel is empty.
const FEWEST: usize = COLUMNS / 2;

pub(super) struct Batched {
    /// One of the products.
    product: Product,
    /// The first row on the left of each product, and the offset of its matrix on the right.
    batch: Vec<(usize, usize)>,
    /// The first zero point of the matrix on the right of each product.
    right_points: Vec<usize>,
    /// The rows on the left of all products.
    left_rows: usize,
}

impl Batched {
    /// Returns `None` if the processor multiplies no bytes in fours, or if there are so few rows or columns that packing
    /// takes longer than it saves.
    pub(super) fn new(call: &Call<'_>) -> Option<Self> {
        let all = super::Product::new(call)?;
        if !(has_vnni() || has_avx_vnni()) || all.rows < ROWS || all.columns < FEWEST {
            return None;
        }
        let product = Product {
            rows: all.rows,
            columns: all.columns,
            depth: all.depth,
            points: all.left_points,
            by_column: all.by_column,
            signed: all.signed,
            threads: call.threads.max(1),
        };
        let (batch, right_points, left_rows) = (all.batch, all.right_points, all.left_rows);
        Some(Self { product, batch, right_points, left_rows })
    }

    pub(super) fn contract(&self) -> Contract {
        let one = &self.product;
        let by_matrices = one.columns > COLUMNS && Matrices::new(one.rows.min(BAND), one.quads()).is_some();
        let rows = self.left_rows * (size_of::<[i32; 2]>() + self.width());
        let scratch = rows + one.threads * self.of_thread();
        Contract { scratch, ..plain_contract(if by_matrices { "matrices" } else { "panels" }) }
    }

    /// Returns the bytes of a row on the left in scratch memory, with zeros at its end.
    fn width(&self) -> usize {
        4 * self.product.quads()
    }

    /// Returns the bytes of scratch memory of a thread: two packed panels, and what is prepared from them.
    fn of_thread(&self) -> usize {
        2 * (self.product.quads() * QUAD + self.product.panel())
    }
}

impl Kernel for Batched {
    unsafe fn run(&self, args: &Args<'_>) {
        let one = &self.product;
        let [a, b, p, q] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let rows = Shared::<[i32; 2]>::scratch(args);
        let unsigned = Shared::<u8>::new(rows.at(self.left_rows).cast());
        let panels = Shared::<u8>::new(unsigned.at(self.left_rows * self.width()));
        let output = Shared::<i32>::output(args);
        let shifts = one.shifts();
        let few = self.batch.len() * one.rows * one.depth * one.columns < WORK;
        let threads = if few { 1 } else { args.team.threads().min(one.threads) };
        let parts = if self.left_rows * one.depth < PARALLEL { 1 } else { threads.min(self.left_rows) };
        args.team.run(parts, |index| {
            for row in part(self.left_rows, parts, index, 1) {
                // SAFETY: the row is in bounds of the factor and of the scratch memory, and only this task writes it.
                unsafe {
                    let from = std::slice::from_raw_parts(a.at(row * one.depth), one.depth);
                    let to = std::slice::from_raw_parts_mut(unsigned.at(row * self.width()), self.width());
                    let point = (*p.at(one.points[row])).wrapping_add(shifts[0]);
                    *rows.at(row) = [copy(from, shifts[0], to), i32::from(point)];
                }
            }
        });
        let (lines, bands) = (one.columns.div_ceil(PAIR_COLUMNS), one.rows.div_ceil(BAND));
        args.team.share(threads, self.batch.len() * lines * bands, |thread, task| {
            let (at, line, band) = (task / (lines * bands), task / bands % lines, task % bands);
            let (first_row, right) = self.batch[at];
            let panel = line * (PAIR_COLUMNS / COLUMNS);
            let size = one.quads() * QUAD;
            let given = panels.at(thread * self.of_thread());
            let factors = Factors {
                product: one,
                // These are the panels from this one on.
                weights: given.wrapping_sub(panel * size).cast_const(),
                points: q.at(self.right_points[at]),
                shift: shifts[1],
                bytes: unsigned.at(first_row * self.width()),
                width: self.width(),
                rows: rows.at(first_row),
                output: output.at(at * one.rows * one.columns),
            };
            let range = band * BAND..((band + 1) * BAND).min(one.rows);
            let pair =
                [0, 1].map(|at| (panel + at) * COLUMNS).map(|first| first..one.columns.min(first + COLUMNS));
            // SAFETY: the columns and rows are within the factors and the result, only this task writes them, and only
            // this thread uses its part of the scratch memory, which has room for two panels.
            unsafe {
                for (at, columns) in pair.iter().enumerate().filter(|(_, columns)| !columns.is_empty()) {
                    let matrix =
                        Columns { first: b.at(right + columns.start), stride: one.columns, depth: one.depth };
                    matrix.pack(columns.len(), given.add(at * size));
                }
                let prepared = given.add(2 * size);
                match pair[1].is_empty() {
                    true => factors.single(panel, range, prepared),
                    false => factors.pair(panel, range, prepared),
                }
            }
        });
    }
}

/// Adjacent columns of a matrix.
struct Columns {
    first: *const u8,
    /// The distance between rows, in elements.
    stride: usize,
    depth: usize,
}

impl Columns {
    /// Writes the panel of some columns: four rows of each column beside each other. What fills up the panel is zero.
    ///
    /// # Safety
    /// The matrix must have the columns, and there must be room for a panel.
    unsafe fn pack(&self, columns: usize, to: *mut u8) {
        for quad in 0..self.depth.div_ceil(4) {
            let mut rows = [[0; COLUMNS]; 4];
            for (at, row) in rows.iter_mut().enumerate().take(self.depth - 4 * quad) {
                // SAFETY: as the caller promises.
                unsafe {
                    let from = self.first.add((4 * quad + at) * self.stride);
                    match columns {
                        COLUMNS => *row = from.cast::<[u8; COLUMNS]>().read(),
                        _ => std::ptr::copy_nonoverlapping(from, row.as_mut_ptr(), columns),
                    }
                }
            }
            let mut beside = [[0; 4]; COLUMNS];
            for (column, four) in beside.iter_mut().enumerate() {
                *four = [rows[0][column], rows[1][column], rows[2][column], rows[3][column]];
            }
            // SAFETY: as the caller promises.
            unsafe { to.add(quad * QUAD).cast::<[[u8; 4]; COLUMNS]>().write(beside) };
        }
    }
}

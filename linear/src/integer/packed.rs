//! `native.matmul-integer-packed`: a product with weights that were packed into panels of columns before the run.
//!
//! The kernel multiplies rows of unsigned bytes by signed weights. If the rows are signed, it adds 128 to their
//! elements and zero points; if the weights are unsigned, it subtracts 128 from them and from their zero points. The
//! products themselves leave the zero points out. With elements `a` of a row and `b` of a column, and their zero
//! points `p` and `q`, the sum of `(a - p) * (b - q)` is the sum of `a * b`, minus `p` times the sum of the column,
//! minus `q` times the sum of `a - p`. All of this is exact modulo 2^32.

use super::broadcast;
use super::few::{Few, centre};
use super::matrix::{GRID_ROWS, Grid, Matrices, Panels};
use super::pair::{PAIR_COLUMNS, PAIR_ROWS, Pair};
use super::quad::{COLUMNS, Facts, Panel, QUAD, Quads, ROWS, has_vnni, prepare, used_as_given};
use crate::args::{Shared, part};
use crate::lanes::Isa;
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;
use std::ops::Range;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["plain", "BA16b4a", "plain", "plain"], "plain")]),
    instruction_sets: ISAS,
    ..Lowering::new("native.matmul-integer-packed", "matmul-integer", contract, kernel)
};

/// The rows of a task.
pub(super) const BAND: usize = 32 * PAIR_ROWS;
/// The most rows that are multiplied by panels as they are given, without `vpdpbusd`.
const FEW: usize = 2 * ROWS;

const _: () = assert!(FEW / ROWS * Few::BYTES <= Panel::WEIGHTS + Panel::RESTS);

/// The multiply-adds from which on a task is worth waking a thread.
pub(super) const WORK: usize = 128 * 1024;

pub(super) struct Product {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// The index of the zero point of each row.
    pub points: Vec<usize>,
    pub by_column: bool,
    pub signed: [bool; 2],
    pub threads: usize,
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

    pub(super) fn quads(&self) -> usize {
        self.depth.div_ceil(4)
    }

    /// Returns what is added to the elements of rows, so that they have no sign, and subtracted from the elements of columns,
    /// so that they have one, modulo 256.
    pub(super) fn shifts(&self) -> [u8; 2] {
        [if self.signed[0] { 128 } else { 0 }, if self.signed[1] { 0 } else { 128 }]
    }

    /// Returns whether few rows have a way of their own.
    fn multiplies_few() -> bool {
        Few::is_supported() && !has_vnni()
    }

    /// Returns the bytes of the rows in scratch memory, each with zeros at its end.
    fn bytes(&self) -> usize {
        self.rows * 4 * self.quads()
    }

    /// Returns the bytes of a prepared panel in scratch memory.
    pub(super) fn panel(&self) -> usize {
        self.quads() * (Panel::WEIGHTS + Panel::RESTS)
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(product) = Product::new(call) else { return reference::contract(call) };
    let by_matrices =
        product.columns > COLUMNS && Matrices::new(product.rows.min(BAND), product.quads()).is_some();
    let rows = product.rows * size_of::<[i32; 2]>() + product.bytes();
    let scratch = rows + product.threads * 2 * product.panel();
    Ok(Contract { scratch, ..plain_contract(if by_matrices { "matrices" } else { "panels" }) })
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
        let shifts = self.shifts();
        let width = 4 * self.quads();
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
        let factors = Factors {
            product: self,
            weights: b.at(0),
            points: q.at(0),
            shift: shifts[1],
            bytes: unsigned.at(0),
            width,
            rows: rows.at(0),
            output: output.at(0),
        };
        // With few rows, the memory limits the speed, and tasks of one panel are spread more evenly.
        let paired = self.rows >= ROWS && !(self.rows <= FEW && Self::multiplies_few());
        let wide = if paired { PAIR_COLUMNS } else { COLUMNS };
        let (lines, bands) = (self.columns.div_ceil(wide), self.rows.div_ceil(BAND));
        let panels = self.columns.div_ceil(COLUMNS);
        args.team.share(threads, lines * bands, |thread, task| {
            let (line, band) = (task % lines, task / lines);
            let to = prepared.at(thread * 2 * self.panel());
            let range = band * BAND..((band + 1) * BAND).min(self.rows);
            // SAFETY: the columns and rows are within the factors and the result, only this task writes them, and only
            // this thread uses its part of the scratch memory, which has room for two panels.
            unsafe {
                match line * wide / COLUMNS {
                    panel if paired && panel + 1 < panels => factors.pair(panel, range, to),
                    panel => factors.single(panel, range, to),
                }
            }
        });
    }
}

/// The factors of a product that is being computed.
pub(super) struct Factors<'a> {
    pub product: &'a Product,
    /// The panels as they are given, the zero points of columns, and what is subtracted from all of them.
    pub weights: *const u8,
    pub points: *const u8,
    pub shift: u8,
    /// The bytes of the rows, and the distance between them.
    pub bytes: *const u8,
    pub width: usize,
    /// The sum of each row, and its zero point.
    pub rows: *const [i32; 2],
    pub output: *mut i32,
}

// SAFETY: the pointers are only addresses; each access to the memory has its own justification.
unsafe impl Sync for Factors<'_> {}

/// A panel that is ready to be multiplied.
struct Ready {
    panel: Panel,
    facts: Facts,
    /// The zero point of each column.
    points: [i32; COLUMNS],
}

impl Factors<'_> {
    /// Prepares a panel in scratch memory.
    ///
    /// # Safety
    /// The panel must be one of the product's, and there must be room for it.
    unsafe fn ready(&self, panel: usize, to: *mut u8) -> Ready {
        let one = self.product;
        // SAFETY: the panel has columns of this depth, and there is room, as the caller promises.
        unsafe {
            let given = self.given(panel);
            let rests = to.add(one.quads() * Panel::WEIGHTS).cast();
            let prepared = Panel { weights: to.cast(), rests };
            let facts = prepare(given, one.depth, self.shift, prepared);
            Ready { panel: prepared.or_given(&facts, given), facts, points: self.points_of(panel) }
        }
    }

    /// Returns where the weights of a panel are given.
    fn given(&self, panel: usize) -> *const u8 {
        self.weights.wrapping_add(panel * self.product.quads() * QUAD)
    }

    /// Returns the zero points of a panel's columns.
    ///
    /// # Safety
    /// The panel must be one of the product's.
    unsafe fn points_of(&self, panel: usize) -> [i32; COLUMNS] {
        let one = self.product;
        let column = panel * COLUMNS;
        let mut points = [0_i32; COLUMNS];
        for (at, point) in points[..COLUMNS.min(one.columns - column)].iter_mut().enumerate() {
            let own = if one.by_column { column + at } else { 0 };
            // SAFETY: there is a zero point for each column, or one for all of them.
            *point = i32::from(unsafe { *self.points.add(own) }.wrapping_add(self.shift).cast_signed());
        }
        points
    }

    /// Computes some rows of a panel's columns.
    ///
    /// # Safety
    /// As for [`Factors::ready`], and no other thread may write these elements.
    pub(super) unsafe fn single(&self, panel: usize, rows: Range<usize>, to: *mut u8) {
        let quads = |row: usize, b: Panel| Quads {
            a: self.bytes.wrapping_add(row * self.width),
            stride: self.width,
            rows: ROWS.min(rows.end - row),
            b,
            quads: self.product.quads(),
        };
        // SAFETY: as the caller promises.
        unsafe {
            if rows.len() <= ROWS && used_as_given(self.product.depth, self.shift) {
                let given =
                    Panel { weights: self.given(panel).cast_mut().cast(), rests: std::ptr::null_mut() };
                let mut sums = [[0; COLUMNS]; ROWS];
                let facts = quads(rows.start, given).add_with_totals(&mut sums);
                let ready = Ready { panel: given, facts, points: self.points_of(panel) };
                self.write(panel, rows.start, &[&ready], sums[..rows.len()].as_flattened_mut());
                return;
            }
            if rows.len() <= FEW && Product::multiplies_few() {
                return self.few(panel, rows, to);
            }
            let ready = self.ready(panel, to);
            for row in rows.clone().step_by(ROWS) {
                let mut sums = [[0; COLUMNS]; ROWS];
                let one = quads(row, ready.panel);
                one.add(&ready.facts, &mut sums);
                self.write(panel, row, &[&ready], sums[..one.rows].as_flattened_mut());
            }
        }
    }

    /// Computes the columns of a panel for a few rows, whose elements become 16-bit integers without zero points.
    ///
    /// # Safety
    /// As for [`Factors::single`]; the scratch memory must be aligned to two bytes.
    unsafe fn few(&self, panel: usize, rows: Range<usize>, to: *mut u8) {
        let (quads, given) = (self.product.quads(), self.given(panel));
        let own = to.cast::<i16>();
        let mut sums = [[0; COLUMNS]; ROWS];
        // SAFETY: as the caller promises.
        unsafe {
            for (at, row) in rows.clone().enumerate() {
                let from = std::slice::from_raw_parts(self.bytes.add(row * self.width), self.product.depth);
                let [_, point] = *self.rows.add(row);
                let to = std::slice::from_raw_parts_mut(own.add(at * 4 * quads), 4 * quads);
                centre(from, point, to);
            }
            // Zero points of rows were subtracted, so totals of columns add nothing.
            let panels = Panel { weights: given.cast_mut().cast(), rests: std::ptr::null_mut() };
            let ready = Ready { panel: panels, facts: Facts::default(), points: self.points_of(panel) };
            for first in (0..rows.len()).step_by(ROWS) {
                let few = Few {
                    a: own.add(first * 4 * quads),
                    stride: 4 * quads,
                    rows: ROWS.min(rows.len() - first),
                    b: given,
                    shift: self.shift,
                    quads,
                };
                few.products(&mut sums);
                let sums = sums[..few.rows].as_flattened_mut();
                self.write(panel, rows.start + first, &[&ready], sums);
            }
        }
    }

    /// Computes some rows of the columns of a panel and the next one.
    ///
    /// # Safety
    /// As for [`Factors::single`].
    pub(super) unsafe fn pair(&self, panel: usize, rows: Range<usize>, to: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe {
            let both = [self.ready(panel, to), self.ready(panel + 1, to.add(self.product.panel()))];
            if let Some(matrices) = Matrices::new(rows.len(), self.product.quads()) {
                let begun = matrices.begin();
                let mut sums: Grid = [[0; PAIR_COLUMNS]; GRID_ROWS];
                let weights = both.each_ref().map(|ready| ready.panel.weights.cast_const());
                let panels = Panels { weights, constants: [&[0; COLUMNS]; 2], both: true, ahead: None };
                for part in begun.parts() {
                    let row = rows.start + part.start;
                    let from = self.bytes.add(row * self.width);
                    let windows = begun.rows(from, self.width, part.len());
                    begun.products(&windows, &panels, sums.as_mut_ptr());
                    self.write(panel, row, &both.each_ref(), sums[..part.len()].as_flattened_mut());
                }
                return;
            }
            for row in rows.clone().step_by(PAIR_ROWS) {
                let mut sums = [[0; PAIR_COLUMNS]; PAIR_ROWS];
                let one = Pair {
                    a: self.bytes.add(row * self.width),
                    stride: self.width,
                    rows: PAIR_ROWS.min(rows.end - row),
                    quads: self.product.quads(),
                    panels: both.each_ref().map(|ready| (ready.panel, &ready.facts)),
                };
                one.products([&[0; COLUMNS]; 2], &mut sums);
                self.write(panel, row, &both.each_ref(), sums[..one.rows].as_flattened_mut());
            }
        }
    }

    /// Writes the sums of some rows with some panels, without what their zero points add.
    ///
    /// # Safety
    /// As for [`Factors::single`].
    unsafe fn write(&self, panel: usize, row: usize, panels: &[&Ready], sums: &mut [i32]) {
        let wide = panels.len() * COLUMNS;
        let columns = wide.min(self.product.columns - panel * COLUMNS);
        // SAFETY: as the caller promises.
        unsafe {
            let rows = std::slice::from_raw_parts(self.rows.add(row), sums.len() / wide);
            Zeros { rows, panels, depth: self.product.depth }.subtract(sums);
            for (at, sums) in sums.chunks_exact(wide).enumerate() {
                let to = self.output.add((row + at) * self.product.columns + panel * COLUMNS);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
            }
        }
    }
}

/// What zero points subtract from the products of some rows with some panels.
struct Zeros<'a> {
    /// The sum of each row, and its zero point.
    rows: &'a [[i32; 2]],
    panels: &'a [&'a Ready],
    depth: usize,
}

impl Zeros<'_> {
    fn subtract(&self, sums: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            // SAFETY: the processor has the instructions.
            return unsafe { self.subtract_avx2(sums) };
        }
        self.subtract_on(sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn subtract_avx2(&self, sums: &mut [i32]) {
        self.subtract_on(sums);
    }

    #[inline(always)]
    fn subtract_on(&self, sums: &mut [i32]) {
        let (parts, _) = sums.as_chunks_mut::<COLUMNS>();
        for (parts, [sum_of_row, p]) in parts.chunks_exact_mut(self.panels.len()).zip(self.rows) {
            // The arithmetic is that of 32 bits throughout, which wraps.
            let centred = sum_of_row.wrapping_sub(p.wrapping_mul(self.depth as i32));
            for (sums, Ready { facts, points, .. }) in parts.iter_mut().zip(self.panels) {
                for ((sum, q), total) in sums.iter_mut().zip(points).zip(&facts.totals) {
                    *sum = sum.wrapping_sub(p.wrapping_mul(*total)).wrapping_sub(q.wrapping_mul(centred));
                }
            }
        }
    }
}

/// Writes the elements of a row without a sign, with zeros at the end. Returns their sum.
pub(super) fn copy(from: &[u8], shift: u8, to: &mut [u8]) -> i32 {
    let mut total = 0_i32;
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.wrapping_add(shift);
        total = total.wrapping_add(i32::from(*to));
    }
    to[from.len()..].fill(0);
    total
}

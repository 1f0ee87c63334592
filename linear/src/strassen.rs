//! One level of Strassen's algorithm for matrix products and 1x1 convolutions, as in `op::strassen`.
//!
//! The sums of the left operand are computed once, or once by each thread, in blocks of lanes, so that each row of a
//! block is at a constant distance from one address. A task then has a band of rows of these sums and a group of
//! panels of columns. It computes all four quarters of its part of the result in its own scratch memory, product by
//! product. Each product is added to its quarters directly from the registers, and the quarters are passed on while
//! they are in the cache.
//!
//! Relative error (L2) against the product in `f64`, for uniform operands: 5.9e-7 for 768 inner elements and 1.2e-6
//! for 3072; the plain kernel has 4.4e-7 and 8.6e-7. Rows of one image are summed in pairs, so the error of both rows
//! is relative to the larger one (N. Higham, "Accuracy and Stability of Numerical Algorithms", 23.2.2), and
//! infinities and NaNs spread from one row to the other. Rows of different images are never summed.

pub(super) mod definition;
mod modes;
mod sums;

use self::modes::modes;
use self::sums::{Quarters, sums};
use super::args::Shared;
use super::product::{Product, Set, StoreMode};
use ovolo::backend::Args;
use ovolo::op::strassen::{PRODUCTS, whole};
use ovolo::op::{KernelChoice, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The elements of one sum in a band: 512 KiB, half of a second-level cache.
const BAND: usize = 128 << 10;
/// The number of inner elements that are multiplied at once, such that every tile of rows after the first finds the
/// weights of a panel in the second-level cache.
const DEPTH: usize = 512;
/// The largest number of rows in a band, such that a group has several panels.
const ROWS: usize = 192;
/// The elements of the quarters that a task computes: 192 KiB.
const MAX_QUARTERS: usize = 48 << 10;
/// The smallest number of rows of a half per thread that are worth reading all weights for.
const MIN_ROWS_PER_THREAD: usize = 56;
/// The number of columns per thread for which computing the sums of the left operand is a twentieth of the work.
const MIN_COLUMNS_PER_THREAD: usize = 96;
/// The largest number of elements in all copies of these sums: 32 MiB.
const MAX_COPIED: usize = 8 << 20;
/// The distance between the flags of threads, in elements: a cache line.
const FLAG_STRIDE: usize = 16;
/// The number of blocks of lanes of the left operand in a task.
const LEFT_BLOCKS: usize = 512;

/// The left operand: images of rows, each of blocks of elements. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub from: *const f32,
    /// The distance between images.
    pub image: usize,
    /// The distance between rows, and between blocks of lanes of a row.
    pub row: usize,
    pub block: usize,
}

/// A part of the result: some rows of a panel of columns, in the thread's scratch memory.
pub(super) struct Part {
    pub from: *mut f32,
    /// The distance between rows, in elements.
    pub stride: usize,
    /// The position in the result. Rows are counted through all images, and a part has rows of one image only.
    pub row: usize,
    pub rows: usize,
    pub column: usize,
    pub columns: usize,
}

/// What a task computes: rows of the upper half, with the rows below them, by panels of columns.
struct Piece {
    top: usize,
    end: usize,
    panels: Range<usize>,
    /// The quarters, in the thread's scratch memory, and the distance between them.
    quarters: *mut f32,
    quarter: usize,
    /// The distance between rows of a panel.
    stride: usize,
}

impl Piece {
    /// Returns the place of a panel of a quarter.
    fn place(&self, quarter: usize, panel: usize) -> *mut f32 {
        let offset =
            quarter * self.quarter + (panel - self.panels.start) * (self.end - self.top) * self.stride;
        self.quarters.wrapping_add(offset)
    }
}

/// A product, with its sizes and its division into tasks.
pub(super) struct Strassen {
    /// The rows of an image of the left operand, and of the upper half of an image.
    rows: usize,
    upper: usize,
    depth: usize,
    /// The inner elements of a half that are multiplied at once: whole blocks of lanes.
    step: usize,
    columns: usize,
    /// The lanes of a vector, and of a block of weights.
    lanes: usize,
    set: Set,
    /// The rows of the upper halves of all images, and of a band of them.
    half: usize,
    band: usize,
    bands: usize,
    /// The number of panels (two blocks of half the columns), and of groups of panels.
    panels: usize,
    groups: usize,
    threads: usize,
    /// The number of copies of the sums of the left operand: one, or one per thread.
    copies: usize,
}

impl Strassen {
    /// Creates a product of `images` images of `rows` rows with the weights whose sums are in `u`. The error says why
    /// no vector kernel supports it.
    pub fn new([images, rows]: [usize; 2], u: &TensorType, threads: usize) -> Result<Self, OpError> {
        let lanes = u.layout.block(2);
        let [depth, columns] = whole(u).ok_or_else(|| {
            OpError::kernel(format!("the weights are {u}, not sums of weights for Strassen's algorithm"))
        })?;
        let set = Set::new(lanes)?;
        let upper = rows.div_ceil(2);
        let half = images * upper;
        let inner = (depth / 2).max(1);
        let depths = inner.div_ceil(DEPTH).max(1);
        let step = inner.div_ceil(depths).next_multiple_of(lanes);
        let most = (BAND / step.max(1)).min(ROWS).max(set.rows()) / set.rows() * set.rows();
        // A thread that multiplies the sums that it has computed finds them in its own cache. With many rows each
        // thread therefore gets its own rows. Otherwise it gets its own columns, and computes all sums itself if that
        // is little work compared with the products.
        let room = threads * PRODUCTS.len() * half * inner.next_multiple_of(lanes) <= MAX_COPIED;
        let own = threads > 1
            && half < MIN_ROWS_PER_THREAD * threads
            && half <= most
            && columns >= MIN_COLUMNS_PER_THREAD * threads
            && room;
        let apart = !own && (half >= 2 * set.rows() * threads || half.div_ceil(most) >= threads);
        let bands = half.div_ceil(most).max(1).next_multiple_of(if apart { threads } else { 1 });
        let band = half.div_ceil(bands);
        let panels = (columns / 2).div_ceil(2 * lanes);
        let group = (MAX_QUARTERS / (4 * band * 2 * lanes).max(1)).max(1);
        let groups = panels.div_ceil(group).next_multiple_of(if apart { 1 } else { threads }).min(panels);
        Ok(Self {
            rows,
            upper,
            depth,
            step,
            columns,
            lanes,
            set,
            half,
            band,
            bands,
            panels,
            groups: groups.max(1),
            threads,
            copies: if own { threads } else { 1 },
        })
    }

    /// Returns how threads share the work: by sizes and threads alone.
    pub fn choices(&self) -> Vec<KernelChoice> {
        let sums =
            if self.copies > 1 { "made by each thread for itself" } else { "made once, by all threads" };
        vec![
            KernelChoice::new("sums of the left operand", sums),
            KernelChoice::new(
                "pieces",
                format!("{} bands of rows by {} groups of columns", self.bands, self.groups),
            ),
        ]
    }

    /// Returns the number of blocks of lanes in a sum of the left operand.
    fn blocks(&self) -> usize {
        (self.depth / 2).div_ceil(self.lanes)
    }

    /// Returns the elements of a sum of the left operand.
    fn sum(&self) -> usize {
        self.blocks() * self.half * self.lanes
    }

    /// Returns the elements of a quarter of the part that a task computes.
    fn quarter(&self) -> usize {
        self.panels.div_ceil(self.groups) * self.band * 2 * self.lanes
    }

    /// Returns the scratch elements.
    pub fn scratch(&self) -> usize {
        let flags = if self.copies > 1 { FLAG_STRIDE * self.copies } else { 0 };
        flags + self.copies * PRODUCTS.len() * self.sum() + 4 * self.threads * self.quarter()
    }

    /// Computes the product with the weights whose sums are `u`, and calls `take` for each part of the result. Only
    /// one thread does so for a given part.
    ///
    /// # Safety
    /// The operands must have the sizes of the product, and scratch must have [`Strassen::scratch`] elements.
    pub unsafe fn run(&self, args: &Args<'_>, left: Left, u: *const f32, take: impl Fn(&Part) + Sync) {
        if self.half * self.columns == 0 {
            return;
        }
        let space = Shared::<f32>::scratch(args);
        let (left, u) = (Shared::new((&raw const left).cast_mut()), Shared::new(u.cast_mut()));
        let sums = |copy: usize| space.at(copy * PRODUCTS.len() * self.sum());
        let quarters = Shared::new(sums(self.copies));
        let flags = Shared::new(quarters.at(4 * self.threads * self.quarter()));
        if self.copies > 1 {
            // SAFETY: no task is running yet.
            (0..self.copies).for_each(|copy| unsafe { *flags.at(FLAG_STRIDE * copy) = 0.0 });
        } else {
            // All threads get the same number of pieces, as they do with bands.
            let pieces = (self.half * self.blocks()).div_ceil(LEFT_BLOCKS);
            let pieces = pieces.next_multiple_of(self.threads).min(self.half);
            args.team.share(self.threads, pieces, |_, piece| {
                let cut = |piece: usize| self.half * piece / pieces;
                // SAFETY: only this task writes these rows of the sums, and `left` outlives the call.
                unsafe { self.sums(&*left.at(0), sums(0), cut(piece)..cut(piece + 1)) };
            });
        }
        args.team.share(self.threads, self.groups * self.bands, |lane, task| {
            let copy = if self.copies > 1 { lane } else { 0 };
            // SAFETY: only this thread uses its memory, and the sums were computed before or are computed in its
            // first task.
            unsafe {
                if self.copies > 1 && *flags.at(FLAG_STRIDE * copy) == 0.0 {
                    self.sums(&*left.at(0), sums(copy), 0..self.half);
                    *flags.at(FLAG_STRIDE * copy) = 1.0;
                }
                let quarters = quarters.at(4 * lane * self.quarter());
                self.task(sums(copy), u.at(0), quarters, task, &take);
            }
        });
    }

    /// Computes the sums for some rows of the upper half and the rows below them.
    ///
    /// # Safety
    /// No other thread may write these rows of the sums.
    unsafe fn sums(&self, left: &Left, to: *mut f32, range: Range<usize>) {
        let (inner, lanes) = (self.depth / 2, self.lanes);
        let mut row = range.start;
        while row < range.end {
            let (image, index) = (row / self.upper, row % self.upper);
            let upper = left.from.wrapping_add(image * left.image + index * left.row);
            let lower = upper.wrapping_add(self.upper * left.row);
            let rows = (self.upper - index).min(range.end - row);
            // With an odd number of rows, the last one has no row below it.
            let below = index + self.upper < self.rows;
            let rows = if below { rows.min(self.rows - self.upper - index) } else { 1 };
            for block in 0..self.blocks() {
                let first = block * lanes;
                let right = inner + first;
                let quarters = Quarters {
                    upper: [first, right].map(|at| upper.wrapping_add(at / lanes * left.block + at % lanes)),
                    lower: [first, right].map(|at| lower.wrapping_add(at / lanes * left.block + at % lanes)),
                    below,
                    row: left.row,
                    rows,
                    lanes: lanes.min(inner - first),
                    to: to.wrapping_add((block * self.half + row) * lanes),
                    sum: self.sum(),
                };
                // SAFETY: rows and lanes are within the operand and the sums.
                unsafe { sums(&quarters, lanes) };
            }
            row += rows;
        }
    }

    /// Computes all products of a band and a group.
    ///
    /// # Safety
    /// The sums must have been computed, and no other thread may use `quarters`.
    unsafe fn task(
        &self,
        left: *const f32,
        u: *const f32,
        quarters: *mut f32,
        task: usize,
        take: &impl Fn(&Part),
    ) {
        let (lanes, inner, half) = (self.lanes, self.depth / 2, self.half);
        let piece = self.piece(task, quarters);
        let Piece { top, end, ref panels, .. } = piece;
        let next = panels.end % self.panels;
        let blocks = (self.columns / 2).div_ceil(lanes);
        let between = PRODUCTS.len() * inner * lanes;
        let weights =
            |product: usize, panel: usize| u.wrapping_add(2 * panel * between + product * inner * lanes);
        let mut begun = [false; 4];
        for (index, product) in PRODUCTS.iter().enumerate() {
            let first = modes(&product.result, &mut begun);
            let again = first
                .map(|(quarter, way)| (quarter, if way == StoreMode::Set { StoreMode::Add } else { way }));
            // Without inner elements one empty step still sets the sums to zero.
            for from in (0..inner.max(1)).step_by(self.step) {
                let to = if from == 0 { first } else { again };
                let depth = self.step.min(inner - from);
                for panel in panels.clone() {
                    let at = |product, panel, from: usize| weights(product, panel).wrapping_add(from * lanes);
                    let ahead = if panel + 1 < panels.end {
                        at(index, panel + 1, from)
                    } else if from + depth < inner {
                        at(index, panels.start, from + depth)
                    } else if index + 1 < PRODUCTS.len() {
                        at(index + 1, panels.start, 0)
                    } else {
                        at(0, next, 0)
                    };
                    let one = Product {
                        v: left.wrapping_add(index * self.sum() + (from / lanes * half + top) * lanes),
                        v_block: half * lanes,
                        depth,
                        u: at(index, panel, from),
                        u_block: between,
                        ahead,
                        to: to.map(|(quarter, _)| piece.place(quarter, panel)),
                        modes: to.map(|(_, way)| way),
                        row: piece.stride,
                        column: lanes,
                    };
                    // SAFETY: these are the band's rows of the sums, the panel's weights and this thread's quarters.
                    unsafe { self.set.run(&one, end - top, (blocks - 2 * panel).min(2)) };
                }
            }
        }
        self.pass_on(&piece, take);
    }

    /// Returns the part of the result of a task.
    fn piece(&self, task: usize, quarters: *mut f32) -> Piece {
        let (band, group) = (task / self.groups, task % self.groups);
        let cut = |group: usize| self.panels * group / self.groups;
        Piece {
            top: self.half * band / self.bands,
            end: self.half * (band + 1) / self.bands,
            panels: cut(group)..cut(group + 1),
            quarters,
            quarter: self.quarter(),
            stride: 2 * self.lanes,
        }
    }

    /// Calls `take` for each part of the quarters of a task.
    fn pass_on(&self, piece: &Piece, take: &impl Fn(&Part)) {
        let Piece { top, end, stride, ref panels, .. } = *piece;
        let columns = self.columns / 2;
        for panel in panels.clone() {
            for quarter in 0..4 {
                let (lower, right) = (quarter / 2 == 1, quarter % 2 == 1);
                let first = panel * stride;
                let mut row = top;
                while row < end {
                    let (image, index) = (row / self.upper, row % self.upper);
                    let rows = (self.upper - index).min(end - row);
                    let below = if lower { self.upper } else { 0 };
                    let part = Part {
                        from: piece.place(quarter, panel).wrapping_add((row - top) * stride),
                        stride,
                        row: image * self.rows + index + below,
                        rows: rows.min(self.rows.saturating_sub(index + below)),
                        column: first + if right { columns } else { 0 },
                        columns: (columns - first).min(stride),
                    };
                    if part.rows > 0 {
                        take(&part);
                    }
                    row += rows;
                }
            }
        }
    }
}

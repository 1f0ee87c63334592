//! Products of weights in a sparse layout with dense columns.
//!
//! The weights are rows of blocks: a row has the weights of a few adjacent outputs, and a block those of one position of the
//! inner dimension. The columns, such as the pixels of an image, lie side by side in a panel with a row for each position of
//! the inner dimension. A stored block multiplies one row of the panel, in vectors along the columns, so that the vectors
//! are full whatever the pattern of the zeros is.

use crate::gemm::PANEL;
use crate::lanes::{Lanes, widened};
use ovolo::tensor::{DType, TensorType};
use std::ops::Range;

/// The outputs of a block that are computed together, in registers.
const TALL: usize = 4;

/// The most outputs of a block.
pub(crate) const TALLEST: usize = 16;

/// Weights in a sparse layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// The outputs.
    pub outputs: usize,
    /// The positions of the inner dimension.
    pub depth: usize,
    /// The outputs of a block: 1, 4, 8 or 16.
    pub height: usize,
    /// The rows of blocks.
    pub rows: usize,
    /// The stored blocks.
    stored: usize,
    /// The byte at which the elements begin.
    elements: usize,
}

impl Weights {
    /// Returns the weights of a type, whose outputs are one dimension; `None` if it has another layout than a sparse one with
    /// blocks of adjacent outputs.
    pub(crate) fn new(ty: &TensorType, outputs: usize) -> Option<Self> {
        let stored = ty.layout.stored()?;
        let height = ty.layout.block(outputs);
        let along = ty.layout.order(ty.shape.rank()).first() == Some(&outputs)
            && ty.layout.blocks().iter().all(|(dim, _)| *dim == outputs);
        if ty.dtype != DType::F32
            || !along
            || (height > 1 && !height.is_multiple_of(TALL))
            || !TALLEST.is_multiple_of(height)
        {
            return None;
        }
        let (whole, depth) = (ty.shape[outputs], ty.shape.count().checked_div(ty.shape[outputs])?);
        Some(Self {
            outputs: whole,
            depth,
            height,
            rows: whole.div_ceil(height),
            stored,
            elements: ty.elements_at(),
        })
    }

    /// Returns the rows of blocks of some outputs, the first of which begins a block.
    pub(crate) fn rows_of(&self, outputs: &Range<usize>) -> Range<usize> {
        outputs.start / self.height..outputs.end.div_ceil(self.height)
    }

    /// Returns the outputs of some rows of blocks.
    pub(crate) fn outputs(&self, rows: &Range<usize>) -> Range<usize> {
        (rows.start * self.height).min(self.outputs)..(rows.end * self.height).min(self.outputs)
    }
}

/// A product of some rows of blocks with a panel.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    /// The weights, and their bytes.
    pub weights: &'a Weights,
    pub bytes: *const u8,
    /// A row of [`PANEL`] elements for each position of the inner dimension, and the distance between rows.
    pub panel: *const f32,
    pub line: usize,
    /// The columns of the panel that are used.
    pub columns: usize,
    /// What the sums begin with, for each output; null for zero.
    pub bias: *const f32,
    /// The first output's results, and the distance between those of outputs, in elements.
    pub results: *mut f32,
    pub stride: usize,
}

impl Product<'_> {
    /// Computes the results of some rows of blocks, the first of which are stored at the beginning of the results.
    ///
    /// # Safety
    /// All elements must be in bounds, and no other thread may use these results.
    pub(crate) unsafe fn run(&self, rows: Range<usize>) {
        // SAFETY: as the caller promises.
        unsafe { run(self, rows) }
    }
}

widened! {
    unsafe fn run(product: &Product<'_>, rows: Range<usize>) = run_on;
}

/// # Safety
/// As for [`Product::run`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn run_on<V: Lanes>(product: &Product<'_>, rows: Range<usize>) {
    let Weights { height, .. } = *product.weights;
    let first = rows.start * height;
    for row in rows {
        // SAFETY: as the caller promises.
        unsafe {
            if height == 1 {
                // Four vectors for one output, or two of the longest.
                if V::COUNT * 4 <= PANEL {
                    product.row::<V, 1, 4>(row, 0, first);
                } else {
                    product.row::<V, 1, 2>(row, 0, first);
                }
                continue;
            }
            for part in (0..height).step_by(TALL) {
                product.row::<V, TALL, 2>(row, part, first);
            }
        }
    }
}

impl Product<'_> {
    /// Computes `H` outputs of a row of blocks, from its output `part` on, `T` vectors of columns at a time. `first` is the
    /// output whose results come first.
    ///
    /// # Safety
    /// As for [`Product::run`].
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn row<V: Lanes, const H: usize, const T: usize>(&self, row: usize, part: usize, first: usize) {
        let Weights { outputs, depth, height, rows, stored, elements } = *self.weights;
        let output = row * height + part;
        if output >= outputs {
            return;
        }
        // The bytes of a tensor may be anything, so what they say is kept in bounds. That takes an instruction for each
        // stored block.
        let last = depth.saturating_sub(1);
        // SAFETY: there are so many rows and stored blocks, the panel has a row for each position, and only outputs that
        // there are have a bias and results.
        unsafe {
            let numbers = self.bytes.cast::<u32>();
            let bound = |at: usize| (*numbers.add(at) as usize).min(stored);
            let blocks = bound(row)..bound(row + 1);
            let positions = numbers.add(rows + 1);
            let values = self.bytes.add(elements).cast::<f32>().add(part);
            let count = H.min(outputs - output);
            for column in (0..self.columns).step_by(T * V::COUNT) {
                let mut sums = [[V::splat(0.0); T]; H];
                if !self.bias.is_null() {
                    for at in 0..H {
                        if at < count {
                            sums[at] = [V::splat(*self.bias.add(output + at)); T];
                        }
                    }
                }
                for block in blocks.clone() {
                    let position = (*positions.add(block) as usize).min(last);
                    let from = self.panel.add(position * self.line + column);
                    let mut line = [V::splat(0.0); T];
                    for at in 0..T {
                        line[at] = V::load(from.add(at * V::COUNT));
                    }
                    let weights = values.add(block * height);
                    for at in 0..H {
                        let weight = V::splat(*weights.add(at));
                        for vector in 0..T {
                            sums[at][vector] = weight.mul_add(line[vector], sums[at][vector]);
                        }
                    }
                }
                for at in 0..H {
                    if at >= count {
                        continue;
                    }
                    let to = self.results.add((output - first + at) * self.stride + column);
                    for vector in 0..T {
                        let done = column + vector * V::COUNT;
                        let to = to.add(vector * V::COUNT);
                        if done + V::COUNT <= self.columns {
                            sums[at][vector].store(to);
                        } else if done < self.columns {
                            sums[at][vector].store_first(to, self.columns - done);
                        }
                    }
                }
            }
        }
    }
}

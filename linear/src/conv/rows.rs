//! Rows of a depthwise convolution, for one block of channels.
//!
//! A row of the result is divided into tiles of as many pixels as have their sums in registers. The last tile starts
//! earlier and computes some pixels again, rather than having fewer pixels. Pixels at the edges, for which some
//! kernel columns are in the padding, are computed one by one.

use super::Geometry;
use crate::lanes::{Lanes, widened};
use std::ops::Range;

/// The numbers of pixels in a tile, largest first. The largest has enough sums to keep the multipliers busy.
const TILES: [usize; 5] = [8, 7, 4, 2, 1];

/// Some rows of one block of channels. The pointers are those of the block.
pub(super) struct Rows<'a> {
    pub geometry: &'a Geometry,
    pub x: *const f32,
    /// A mask for the number of an input row that gives its position after `x`: all bits if every row has its own
    /// position, and the lower bits if rows are in a ring buffer.
    pub mask: usize,
    pub w: *const f32,
    pub bias: *const f32,
    pub biases: usize,
    pub y: *mut f32,
    pub residual: *const f32,
    pub low: f32,
    pub high: f32,
    pub first: usize,
    pub end: usize,
}

widened! {
    /// # Safety
    /// The block's input, weights and output must be in bounds.
    pub(super) unsafe fn rows(rows: &Rows<'_>) = rows_on of rows.geometry.block;
}

/// # Safety
/// As for [`rows`]; the processor must have the instruction set of `V`, which must have as many lanes as a block.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    debug_assert_eq!(rows.geometry.block, V::COUNT);
    let Geometry { strides: [_, stride], kernel: [_, taps], dilations: [_, dilation], .. } = *rows.geometry;
    // SAFETY: as the caller promises.
    unsafe {
        match (stride, taps, dilation) {
            _ if !V::COMMON => strided::<V, 0, 0>(rows),
            (1, 3, 1) => strided::<V, 1, 3>(rows),
            (1, 5, 1) => strided::<V, 1, 5>(rows),
            (1, _, _) => strided::<V, 1, 0>(rows),
            (2, 3, 1) => strided::<V, 2, 3>(rows),
            (2, 5, 1) => strided::<V, 2, 5>(rows),
            (2, _, _) => strided::<V, 2, 0>(rows),
            _ => strided::<V, 0, 0>(rows),
        }
    }
}

/// Computes rows for a fixed stride `STRIDE` and `TAPS` adjacent kernel columns; 0 stands for any number, of columns at
/// any distance.
///
/// # Safety
/// As for [`rows_on`].
#[inline(always)]
unsafe fn strided<V: Lanes, const STRIDE: usize, const TAPS: usize>(rows: &Rows<'_>) {
    let columns = rows.geometry.output[1];
    let inside = rows.geometry.inner_columns();
    let tile = tile_of(inside.len());
    for row in rows.first..rows.end {
        let taken = rows.geometry.rows(row);
        for column in (0..inside.start).chain(inside.end..columns) {
            // SAFETY: the pixel is within the row.
            unsafe { pixels::<V, STRIDE, TAPS, 1, false>(rows, row, &taken, column) };
        }
        for column in inside.clone().step_by(tile) {
            let column = column.min(inside.end - tile);
            // SAFETY: the tile is within the inner part of the row.
            unsafe {
                match tile {
                    8 => pixels::<V, STRIDE, TAPS, 8, true>(rows, row, &taken, column),
                    7 => pixels::<V, STRIDE, TAPS, 7, true>(rows, row, &taken, column),
                    4 => pixels::<V, STRIDE, TAPS, 4, true>(rows, row, &taken, column),
                    2 => pixels::<V, STRIDE, TAPS, 2, true>(rows, row, &taken, column),
                    _ => pixels::<V, STRIDE, TAPS, 1, true>(rows, row, &taken, column),
                }
            }
        }
    }
}

/// Returns the tile size for a number of columns: the second largest if it needs no more tiles than the largest, and
/// otherwise the largest that fits.
pub(super) fn tile_of(columns: usize) -> usize {
    let [most, next, ..] = TILES;
    if columns >= next && columns.div_ceil(next) <= columns.div_ceil(most) {
        return next;
    }
    TILES.into_iter().find(|tile| *tile <= columns).unwrap_or(1)
}

/// Computes `T` pixels of a row under some kernel rows. `INSIDE` says that all kernel columns overlap the input for
/// all of them.
///
/// # Safety
/// As for [`rows_on`]; the pixels must be within the row.
#[inline(always)]
unsafe fn pixels<V: Lanes, const STRIDE: usize, const TAPS: usize, const T: usize, const INSIDE: bool>(
    rows: &Rows<'_>,
    row: usize,
    taken: &Range<usize>,
    column: usize,
) {
    let geometry = rows.geometry;
    let Geometry { strides: [down, across], dilations, pads: [above, pad], .. } = *geometry;
    let stride = if STRIDE > 0 { STRIDE } else { across };
    let (taps, dilation) = if TAPS > 0 { (TAPS, 1) } else { (geometry.kernel[1], dilations[1]) };
    let width = geometry.input[1];
    // SAFETY: rows and columns are clipped to the input, and lanes to the block.
    unsafe {
        let mut sums = [V::load_first(rows.bias, rows.biases.min(V::COUNT)); T];
        for r in taken.clone() {
            let place = (row * down + r * dilations[0] - above) & rows.mask;
            // The column of the first pixel may be to the left of the input.
            let first = (column * stride).wrapping_sub(pad);
            let line = rows
                .x
                .wrapping_add(place * width * V::COUNT)
                .wrapping_offset(first.cast_signed() * V::COUNT.cast_signed());
            let weights = rows.w.add(r * taps * V::COUNT);
            for s in 0..taps {
                let weight = V::load(weights.add(s * V::COUNT));
                let from = line.wrapping_add(s * dilation * V::COUNT);
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    if INSIDE || first.wrapping_add(s * dilation + pixel * stride) < width {
                        *sum = V::load(from.wrapping_add(pixel * stride * V::COUNT)).mul_add(weight, *sum);
                    }
                }
            }
        }
        let (low, high) = (V::splat(rows.low), V::splat(rows.high));
        for (pixel, sum) in sums.into_iter().enumerate() {
            let at = (row * geometry.output[1] + column + pixel) * V::COUNT;
            let sum = if rows.residual.is_null() { sum } else { sum.add(V::load(rows.residual.add(at))) };
            high.min(low.max(sum)).store(rows.y.add(at));
        }
    }
}

//! Rows of a depthwise convolution, of one block of channels.
//!
//! A row of the result is cut into tiles of as many pixels as have their sums in registers; the last one
//! reaches back over pixels that are done, rather than take few. Pixels at the edges, which do not meet
//! the input under every kernel column, are computed one by one.

use super::Geometry;
use crate::lanes::{Lanes, widened};
use std::ops::Range;

/// Pixels of a tile, the most first: as many sums as keep the multipliers busy.
const TILES: [usize; 5] = [8, 7, 4, 2, 1];

/// Some rows of one block of channels. Pointers are at the block.
pub(super) struct Rows<'a> {
    pub geometry: &'a Geometry,
    pub x: *const f32,
    /// The bits of an input row that say where it lies from `x` on: all of them where every row has a
    /// place of its own, fewer where rows lie in a ring.
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
    /// The block's input, weights and output are in bounds.
    pub(super) unsafe fn rows(rows: &Rows<'_>) = rows_on of rows.geometry.block;
}

/// # Safety
/// As [`rows`]; the processor has the instruction set of `V`, which has as many lanes as a block.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    debug_assert_eq!(rows.geometry.block, V::COUNT);
    let Geometry { strides: [_, stride], kernel: [_, taps], dilations: [_, dilation], .. } = *rows.geometry;
    // SAFETY: as the caller promises.
    unsafe {
        match (stride, taps, dilation) {
            (1, 3, 1) => strided::<V, 1, 3>(rows),
            (1, 5, 1) => strided::<V, 1, 5>(rows),
            (2, 3, 1) => strided::<V, 2, 3>(rows),
            (2, 5, 1) => strided::<V, 2, 5>(rows),
            _ => strided::<V, 0, 0>(rows),
        }
    }
}

/// Rows whose pixels are `STRIDE` apart in the input under `TAPS` columns of a kernel side by side; any
/// numbers for 0.
///
/// # Safety
/// As [`rows_on`].
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
            // SAFETY: the tile is within the row, and all of it inside.
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

/// The tile for so many columns: the next smaller one where it takes no more of them.
fn tile_of(columns: usize) -> usize {
    let [most, next, ..] = TILES;
    if columns >= next && columns.div_ceil(next) <= columns.div_ceil(most) {
        return next;
    }
    TILES.into_iter().find(|tile| *tile <= columns).unwrap_or(1)
}

/// `T` pixels of a row under some kernel rows, all of them `INSIDE` the input under every kernel column,
/// or not.
///
/// # Safety
/// As [`rows_on`]; the pixels are within the row.
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
    // SAFETY: rows and columns are clipped to the input; lanes to the block.
    unsafe {
        let mut sums = [V::load_first(rows.bias, rows.biases.min(V::COUNT)); T];
        for r in taken.clone() {
            let place = (row * down + r * dilations[0] - above) & rows.mask;
            // The first pixel's column, which may lie to the left of the input.
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

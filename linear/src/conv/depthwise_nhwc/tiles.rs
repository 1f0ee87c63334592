//! Tiles of a depthwise convolution: some pixels of a row, for one vector of channels.
//!
//! For each kernel row, a tile loads the weights of its columns and then each pixel of the input once: a pixel is
//! multiplied by the weights of all outputs that it belongs to while it is in a register. So a window of seven columns
//! needs three times fewer loads than if each output loaded its own pixels.

use super::BLOCK;
use crate::conv::Geometry;
use crate::conv::rows::tile_of;
use crate::lanes::{Lanes, widened};
use std::ops::Range;

/// Some rows and channels of one image. The pointers are those of the image, and those of all weights.
pub(super) struct Tiles<'a> {
    pub geometry: &'a Geometry,
    pub x: *const f32,
    pub w: *const f32,
    pub bias: *const f32,
    pub y: *mut f32,
    /// The operand that is added to the sums, at the same offset as `y`; null for none.
    pub residual: *const f32,
    pub low: f32,
    pub high: f32,
    pub rows: Range<usize>,
    pub channels: Range<usize>,
}

/// Where a tile begins: a row and a column of the result, and a channel; and the number of channels of its vector.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    column: usize,
    channel: usize,
    lanes: usize,
}

widened! {
    /// # Safety
    /// The image, the weights and the result must be in bounds.
    pub(super) unsafe fn tiles(part: &Tiles<'_>) = tiles_on;
}

/// # Safety
/// As for [`tiles`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn tiles_on<V: Lanes>(part: &Tiles<'_>) {
    let Geometry { strides: [_, stride], kernel: [_, taps], dilations: [_, dilation], .. } = *part.geometry;
    // SAFETY: as the caller promises.
    unsafe {
        match (stride, taps, dilation) {
            _ if !V::COMMON => strided::<V, 0, 0>(part),
            (1, 3, 1) => strided::<V, 1, 3>(part),
            (1, 5, 1) => strided::<V, 1, 5>(part),
            (1, 7, 1) => strided::<V, 1, 7>(part),
            (2, 3, 1) => strided::<V, 2, 3>(part),
            (2, 5, 1) => strided::<V, 2, 5>(part),
            (2, 7, 1) => strided::<V, 2, 7>(part),
            _ => strided::<V, 0, 0>(part),
        }
    }
}

/// Computes the tiles for a fixed stride `STRIDE` and `TAPS` adjacent kernel columns; 0 stands for any number, of columns
/// at any distance.
///
/// # Safety
/// As for [`tiles_on`].
#[inline(always)]
unsafe fn strided<V: Lanes, const STRIDE: usize, const TAPS: usize>(part: &Tiles<'_>) {
    let columns = part.geometry.output[1];
    let tile = tile_of(columns);
    for row in part.rows.clone() {
        let taken = part.geometry.rows(row);
        for column in (0..columns).step_by(tile) {
            // The last tile begins earlier, and computes some pixels again.
            let column = column.min(columns - tile);
            let inside = part.geometry.inside(column, tile);
            // All channels of a tile come before the next tile. So pixels are read as they lie in memory, and the
            // weights, which are as many as those of some pixels, come from the cache.
            for channel in part.channels.clone().step_by(V::COUNT) {
                let lanes = (part.channels.end - channel).min(V::COUNT);
                let place = Place { row, column, channel, lanes };
                // SAFETY: the tile is within the row, and its channels are those of the part.
                unsafe { tile_at::<V, STRIDE, TAPS>(part, &taken, place, tile, inside) };
            }
        }
    }
}

/// Computes a tile of `tile` pixels. `inside` says that no pixel of the input that it needs is padding.
///
/// # Safety
/// As for [`pixels`].
#[inline(always)]
unsafe fn tile_at<V: Lanes, const STRIDE: usize, const TAPS: usize>(
    part: &Tiles<'_>,
    taken: &Range<usize>,
    place: Place,
    tile: usize,
    inside: bool,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match (tile, inside && place.lanes == V::COUNT) {
            (8, true) => pixels::<V, STRIDE, TAPS, 8, true>(part, taken, place),
            (8, false) => pixels::<V, STRIDE, TAPS, 8, false>(part, taken, place),
            (7, true) => pixels::<V, STRIDE, TAPS, 7, true>(part, taken, place),
            (7, false) => pixels::<V, STRIDE, TAPS, 7, false>(part, taken, place),
            (4, true) => pixels::<V, STRIDE, TAPS, 4, true>(part, taken, place),
            (4, false) => pixels::<V, STRIDE, TAPS, 4, false>(part, taken, place),
            (2, true) => pixels::<V, STRIDE, TAPS, 2, true>(part, taken, place),
            (2, false) => pixels::<V, STRIDE, TAPS, 2, false>(part, taken, place),
            (_, true) => pixels::<V, STRIDE, TAPS, 1, true>(part, taken, place),
            (_, false) => pixels::<V, STRIDE, TAPS, 1, false>(part, taken, place),
        }
    }
}

/// Computes `T` pixels of a row. `INSIDE` says that none of the pixels of the input that they need is padding, and that
/// the vector is full.
///
/// # Safety
/// As for [`tiles_on`]; the pixels must be within the row, and the lanes within the channels.
#[inline(always)]
unsafe fn pixels<V: Lanes, const STRIDE: usize, const TAPS: usize, const T: usize, const INSIDE: bool>(
    part: &Tiles<'_>,
    taken: &Range<usize>,
    place: Place,
) {
    let geometry = part.geometry;
    let Geometry { strides: [down, across], dilations, pads: [above, pad], channels, .. } = *geometry;
    let Place { row, column, channel, lanes } = place;
    let (stride, taps) = if TAPS > 0 { (STRIDE, TAPS) } else { (across, geometry.kernel[1]) };
    let (width, block) = (geometry.input[1], channel / BLOCK * geometry.kernel[0] * taps * BLOCK);
    // The column of the first pixel may be to the left of the input.
    let first = (column * stride).wrapping_sub(pad);
    // SAFETY: rows and columns are clipped to the input, and lanes to the channels.
    unsafe {
        let mut sums = [V::load_first(part.bias.add(channel), lanes); T];
        for r in taken.clone() {
            let line = Line {
                x: part
                    .x
                    .wrapping_add((row * down + r * dilations[0] - above) * width * channels + channel)
                    .wrapping_offset(first.cast_signed() * channels.cast_signed()),
                w: part.w.add(block + channel % BLOCK + r * taps * BLOCK),
                channels,
                first,
                width,
                lanes,
            };
            if TAPS > 0 {
                line.sliding::<V, STRIDE, TAPS, T, INSIDE>(&mut sums);
            } else {
                line.any::<V, T, INSIDE>(&mut sums, taps, dilations[1], stride);
            }
        }
        let (low, high) = (V::splat(part.low), V::splat(part.high));
        for (pixel, sum) in sums.into_iter().enumerate() {
            let at = (row * geometry.output[1] + column + pixel) * channels + channel;
            let full = INSIDE || lanes == V::COUNT;
            let sum = match (part.residual.is_null(), full) {
                (true, _) => sum,
                (false, true) => sum.add(V::load(part.residual.add(at))),
                (false, false) => sum.add(V::load_first(part.residual.add(at), lanes)),
            };
            let sum = high.min(low.max(sum));
            if full { sum.store(part.y.add(at)) } else { sum.store_first(part.y.add(at), lanes) }
        }
    }
}

/// The pixels of one row of the input under one kernel row.
struct Line {
    /// The first pixel, which may be padding.
    x: *const f32,
    w: *const f32,
    channels: usize,
    /// The column of the first pixel, and the number of columns.
    first: usize,
    width: usize,
    lanes: usize,
}

/// Runs a statement for the numbers from 0 to the most pixels that a tile needs of a row, each a constant. The compiler
/// does not unroll such a long loop, and keeps the sums in memory if they have no constant index.
macro_rules! unrolled {
    ($at:ident => $body:expr) => {
        unrolled!($at => $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
    };
    ($at:ident => $body:expr, $($number:literal)*) => {
        $({ const $at: usize = $number; $body })*
    };
}

impl Line {
    /// Returns the pixel after `at` others, or `None` if it is padding.
    ///
    /// # Safety
    /// As for [`pixels`].
    #[inline(always)]
    unsafe fn pixel<V: Lanes, const INSIDE: bool>(&self, at: usize) -> Option<V> {
        let from = self.x.wrapping_add(at * self.channels);
        // SAFETY: the pixel is within the row.
        unsafe {
            match INSIDE {
                true => Some(V::load(from)),
                false if self.first.wrapping_add(at) < self.width => Some(V::load_first(from, self.lanes)),
                false => None,
            }
        }
    }

    /// Adds the products of adjacent kernel columns.
    ///
    /// # Safety
    /// As for [`pixels`].
    #[inline(always)]
    unsafe fn sliding<
        V: Lanes,
        const STRIDE: usize,
        const TAPS: usize,
        const T: usize,
        const INSIDE: bool,
    >(
        &self,
        sums: &mut [V; T],
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut weights = [V::splat(0.0); TAPS];
            for (tap, weight) in weights.iter_mut().enumerate() {
                *weight = V::load(self.w.add(tap * BLOCK));
            }
            unrolled!(AT => if AT < (T - 1) * STRIDE + TAPS
                && let Some(value) = self.pixel::<V, INSIDE>(AT)
            {
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    // The subtraction wraps around for pixels that begin after this one.
                    let tap = AT.wrapping_sub(pixel * STRIDE);
                    if tap < TAPS {
                        *sum = value.mul_add(weights[tap], *sum);
                    }
                }
            });
        }
    }

    /// Adds the products of any number of kernel columns at any distance.
    ///
    /// # Safety
    /// As for [`pixels`].
    #[inline(always)]
    unsafe fn any<V: Lanes, const T: usize, const INSIDE: bool>(
        &self,
        sums: &mut [V; T],
        taps: usize,
        dilation: usize,
        stride: usize,
    ) {
        for tap in 0..taps {
            // SAFETY: as the caller promises.
            unsafe {
                let weight = V::load(self.w.add(tap * BLOCK));
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    if let Some(value) = self.pixel::<V, INSIDE>(tap * dilation + pixel * stride) {
                        *sum = value.mul_add(weight, *sum);
                    }
                }
            }
        }
    }
}

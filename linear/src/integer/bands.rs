//! The division of an image's pixels into bands, and of a band into the rows of products.

use super::pair::PAIR_ROWS;
use std::ops::Range;

/// The most pixels of a band whose windows are copied.
pub(super) const BAND: usize = 64;
/// The bytes of the pixels of a band that stay in the first-level cache while panels of weights come and go, and the most
/// pixels of such a band: the more it has, the less often panels are prepared.
const BYTES: usize = 32 << 10;
const MOST: usize = 4 * BAND;

/// The number of bands for each thread from which on a band more or less does not matter.
const FEW: usize = 16;

/// The bands of an image. All but the last have the same number of pixels.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    pub count: usize,
    pixels: usize,
    area: usize,
}

/// Returns the most pixels of a band of pixels that are read where they lie, with this many bytes each.
pub(super) fn band(bytes: usize) -> usize {
    (BYTES / bytes.max(1)).clamp(BAND, MOST)
}

impl Bands {
    /// Divides an image of this many pixels, which is at least one, into bands of a multiple of the rows of a product.
    pub(super) fn new(area: usize) -> Self {
        let pixels = area.div_ceil(area.div_ceil(BAND)).next_multiple_of(PAIR_ROWS);
        Self { count: area.div_ceil(pixels), pixels, area }
    }

    /// Divides an image of this many pixels or tiles, which is at least one, into bands that have nearly the same number of
    /// them, and `most` at most. If there are few bands, all threads have equally many.
    pub(super) fn even(area: usize, most: usize, threads: usize) -> Self {
        let count = area.div_ceil(most);
        let few = (2..FEW * threads).contains(&count);
        let pixels = area.div_ceil(if few { count.next_multiple_of(threads) } else { count });
        Self { count: area.div_ceil(pixels), pixels, area }
    }

    /// Returns the pixels or tiles of a band.
    pub(super) fn range(&self, band: usize) -> Range<usize> {
        band * self.pixels..((band + 1) * self.pixels).min(self.area)
    }
}

/// Divides rows among products, of which each has about as many: a product with one row takes nearly as long as one
/// with eight.
pub(super) fn tiles(rows: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.div_ceil(PAIR_ROWS);
    (0..count).map(move |at| rows * at / count..rows * (at + 1) / count)
}

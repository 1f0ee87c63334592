//! Products of a few rows with a panel of packed columns as it is given, for AVX2.
//!
//! To prepare a panel takes as long as to multiply some rows by it; see [`quad`](super::quad). Rows that are as few are
//! multiplied in 16 bits, where no pair of weights has to be split, and where zero points are subtracted from the rows
//! before. So the weights are read once, and nothing else has to be known about them.

use super::quad::{COLUMNS, QUAD, ROWS};
use crate::lanes::{Isa, prefetch};

/// The distance in bytes at which weights are prefetched.
const AHEAD: usize = 1024;

/// Rows of 16-bit integers, and a panel to multiply them by.
pub(super) struct Few {
    /// The rows, with a multiple of four elements.
    pub a: *const i16,
    /// The distance between rows, in elements.
    pub stride: usize,
    /// The number of rows, from 1 to [`ROWS`].
    pub rows: usize,
    /// The weights as they are given, and what is added to their bits to give them a sign.
    pub b: *const u8,
    pub shift: u8,
    /// A quarter of the inner dimension, rounded up.
    pub quads: usize,
}

impl Few {
    /// The bytes of the rows for each quad.
    pub(super) const BYTES: usize = 4 * ROWS * size_of::<i16>();

    /// Returns whether the processor has the instructions.
    pub(super) fn is_supported() -> bool {
        cfg!(target_arch = "x86_64") && Isa::running() >= Isa::Avx2
    }

    /// Writes the products of the rows.
    ///
    /// # Safety
    /// All elements must be in bounds, and this way must be [supported](Few::is_supported).
    pub(super) unsafe fn products(&self, sums: &mut [[i32; COLUMNS]; ROWS]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises.
        unsafe {
            match self.rows {
                1 => self.avx2::<1, 4>(0, sums),
                2 => self.avx2::<2, 4>(0, sums),
                rows => {
                    for first in [0, 2] {
                        match rows {
                            3 => self.avx2::<3, 2>(first, sums),
                            _ => self.avx2::<4, 2>(first, sums),
                        }
                    }
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("there is no `vpmaddwd` for {} rows at {:?}: {} sums", self.rows, self.b, sums.len());
    }

    /// Writes the products with `V` vectors of four columns from vector `first` on.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const R: usize, const V: usize>(&self, first: usize, sums: &mut [[i32; COLUMNS]; ROWS]) {
        use std::arch::x86_64::*;
        // Adding 128 to a byte changes its highest bit only, and there is no other shift than 0 and 128.
        let shift = _mm_set1_epi8(self.shift.cast_signed());
        // Adjacent sums belong to one column.
        let mut totals = [[_mm256_setzero_si256(); V]; R];
        // SAFETY: as the caller of `products` promises; a quad is four vectors of 16 bytes.
        unsafe {
            for quad in 0..self.quads {
                let from = self.b.add(quad * QUAD).cast::<__m128i>().add(first);
                prefetch(from.wrapping_byte_add(AHEAD));
                let mut weights = [_mm256_setzero_si256(); V];
                for at in 0..V {
                    weights[at] = _mm256_cvtepi8_epi16(_mm_xor_si128(_mm_loadu_si128(from.add(at)), shift));
                }
                for row in 0..R {
                    let four = self.a.add(row * self.stride + 4 * quad).cast::<i64>().read_unaligned();
                    let four = _mm256_set1_epi64x(four);
                    for at in 0..V {
                        let products = _mm256_madd_epi16(four, weights[at]);
                        totals[row][at] = _mm256_add_epi32(totals[row][at], products);
                    }
                }
            }
            for row in 0..R {
                for at in 0..V / 2 {
                    let both = _mm256_hadd_epi32(totals[row][2 * at], totals[row][2 * at + 1]);
                    // Each half has two columns of each vector.
                    let both = _mm256_permute4x64_epi64::<0b1101_1000>(both);
                    let to = sums[row].as_mut_ptr().add(4 * (first + 2 * at));
                    _mm256_storeu_si256(to.cast(), both);
                }
            }
        }
    }
}

/// Writes the elements of a row minus its zero point, of which the first ones are given and the others are zero.
pub(super) fn centre(from: &[u8], point: i32, to: &mut [i16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = i16::from(*from) - point as i16;
    }
    to[from.len()..].fill(0);
}

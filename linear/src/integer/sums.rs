//! Writes the sums of some pixels transposed, so that those of one output are adjacent.

use super::pair::{PAIR_ROWS, PairSums};
use super::quad::COLUMNS;
#[cfg(target_arch = "x86_64")]
use crate::lanes::Isa;

/// Sums of some pixels, one row for each, with a column for each output.
pub(super) struct Sums<'a> {
    pub sums: &'a [PairSums; PAIR_ROWS],
    /// The first column.
    pub first: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Sums<'_> {
    /// Writes the sums of each output one after another; outputs are `area` elements apart.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn write(&self, to: *mut i32, area: usize) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.rows == PAIR_ROWS && self.columns == COLUMNS && Isa::running() >= Isa::Avx2 {
                return self.write_avx2(to, area);
            }
            for column in 0..self.columns {
                for (row, sums) in self.sums[..self.rows].iter().enumerate() {
                    *to.add(column * area + row) = sums[self.first + column];
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn write_avx2(&self, to: *mut i32, area: usize) {
        use std::arch::x86_64::{
            __m256i, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_storeu_si256,
            _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
        };
        for half in 0..2 {
            // SAFETY: as the caller promises.
            unsafe {
                let row = |at: usize| {
                    _mm256_loadu_si256(self.sums[at].as_ptr().add(self.first + 8 * half).cast::<__m256i>())
                };
                // Two rows give pairs, two pairs of rows give fours, and the halves of two registers give eights.
                let pairs = [0, 2, 4, 6].map(|at| {
                    let (one, other) = (row(at), row(at + 1));
                    [_mm256_unpacklo_epi32(one, other), _mm256_unpackhi_epi32(one, other)]
                });
                let fours = [0, 2].map(|at| {
                    let [one, other] = [pairs[at], pairs[at + 1]];
                    [0, 1].map(|part| {
                        [
                            _mm256_unpacklo_epi64(one[part], other[part]),
                            _mm256_unpackhi_epi64(one[part], other[part]),
                        ]
                    })
                });
                for part in 0..4 {
                    let (one, other) = (fours[0][part / 2][part % 2], fours[1][part / 2][part % 2]);
                    let to = to.add((8 * half + part) * area);
                    _mm256_storeu_si256(to.cast::<__m256i>(), _mm256_permute2x128_si256::<0x20>(one, other));
                    let to = to.add(4 * area);
                    _mm256_storeu_si256(to.cast::<__m256i>(), _mm256_permute2x128_si256::<0x31>(one, other));
                }
            }
        }
    }
}

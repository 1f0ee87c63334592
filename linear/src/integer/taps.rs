//! Products of a panel with windows that are read where they lie: one tap after another, instead of a copy of each window.
//! A copy pays only if many panels read it, and those of one group are few.

use super::pair::{PAIR_ROWS, PairSums};
#[cfg(target_arch = "x86_64")]
use super::quad::QUAD;
use super::quad::{COLUMNS, has_vnni};

/// The taps of windows, and the panel that they are multiplied by.
pub(super) struct Taps<'a> {
    /// The distances of the taps from the first element of a window.
    pub offsets: &'a [usize],
    /// The quads of a tap.
    pub quads: usize,
    /// The weights, as [`prepare`](super::quad::prepare) wrote them where no pair was split.
    pub weights: *const i8,
}

impl Taps<'_> {
    /// Whether the processor has the instructions.
    pub(super) fn are_read_in_place() -> bool {
        has_vnni()
    }

    /// Writes the products of windows, of which the first elements are given, each plus the constant of its column, into
    /// the columns of the sums from `column` on.
    ///
    /// # Safety
    /// All elements must be in bounds, there must be a row of sums for each window, at most [`PAIR_ROWS`] windows, and taps
    /// must be [read in place](Taps::are_read_in_place).
    pub(super) unsafe fn products(
        &self,
        windows: &[*const u8],
        constants: &[i32; COLUMNS],
        sums: &mut [PairSums],
        column: usize,
    ) {
        debug_assert!(windows.len() <= PAIR_ROWS);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises.
        unsafe {
            match windows.len() {
                8 => self.vnni::<8>(windows, constants, sums, column),
                7 => self.vnni::<7>(windows, constants, sums, column),
                6 => self.vnni::<6>(windows, constants, sums, column),
                5 => self.vnni::<5>(windows, constants, sums, column),
                4 => self.vnni::<4>(windows, constants, sums, column),
                _ => (0..windows.len()).for_each(|at| {
                    self.vnni::<1>(&windows[at..=at], constants, &mut sums[at..=at], column);
                }),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (windows, constants, sums, column, self.offsets, self.quads, self.weights);
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn vnni<const R: usize>(
        &self,
        windows: &[*const u8],
        constants: &[i32; COLUMNS],
        sums: &mut [PairSums],
        column: usize,
    ) {
        use std::arch::x86_64::{
            __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
        };
        // SAFETY: as the caller of `products` promises; a row of constants is a vector, and so is a quad.
        unsafe {
            let windows: [*const u8; R] = std::array::from_fn(|at| windows[at]);
            let mut totals = [_mm512_loadu_si512(constants.as_ptr().cast::<__m512i>()); R];
            let mut weights = self.weights.cast::<__m512i>();
            for offset in self.offsets {
                for quad in 0..self.quads {
                    let own = _mm512_loadu_si512(weights);
                    weights = weights.byte_add(QUAD);
                    for row in 0..R {
                        let four = windows[row].add(offset + 4 * quad).cast::<i32>().read_unaligned();
                        totals[row] = _mm512_dpbusd_epi32(totals[row], _mm512_set1_epi32(four), own);
                    }
                }
            }
            for row in 0..R {
                let to = sums.as_mut_ptr().add(row).cast::<i32>().add(column);
                _mm512_storeu_si512(to.cast::<__m512i>(), totals[row]);
            }
        }
    }
}

//! Products of up to eight rows with a pair of panels, so that each element of a row serves 32 columns.

use super::quad::{COLUMNS, Facts, Panel, Quads, ROWS};
#[cfg(target_arch = "x86_64")]
use super::quad::{QUAD, has_vnni};
#[cfg(target_arch = "x86_64")]
use crate::lanes::prefetch;

/// The distance in bytes at which weights are prefetched when they are read for the first time.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 2048;

/// The most rows that are multiplied at once.
pub(super) const PAIR_ROWS: usize = 2 * ROWS;

/// The columns of both panels.
pub(super) const PAIR_COLUMNS: usize = 2 * COLUMNS;

/// The sums of a row with both panels.
pub(super) type PairSums = [i32; PAIR_COLUMNS];

/// Rows of integers without a sign, and a pair of prepared panels to multiply them by.
pub(super) struct Pair<'a> {
    /// The rows.
    pub a: *const u8,
    /// The distance between rows, in elements.
    pub stride: usize,
    /// The number of rows, from 1 to [`PAIR_ROWS`].
    pub rows: usize,
    /// A quarter of the inner dimension.
    pub quads: usize,
    /// The panels, as [`prepare`](super::quad::prepare) wrote them. They may be the same one; then only the first half of
    /// the sums is written.
    pub panels: [(Panel, &'a Facts); 2],
}

impl<'a> Pair<'a> {
    /// Returns the product of rows with two prepared panels; `depth` is the inner dimension.
    pub(super) fn new(a: *const u8, depth: usize, rows: usize, panels: [(Panel, &'a Facts); 2]) -> Self {
        Self { a, stride: depth, rows, quads: depth / 4, panels }
    }

    /// Writes the products of the rows, each plus the constant of its column. There must be room for all rows.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn products(&self, constants: [&[i32; COLUMNS]; 2], sums: &mut [PairSums]) {
        let sums = &mut sums[..self.rows];
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            // Products with one panel twice would take as long as with two.
            let single = std::ptr::eq(self.panels[0].0.weights, self.panels[1].0.weights);
            #[cfg(target_arch = "x86_64")]
            if !single && has_vnni() && self.panels.iter().all(|(_, facts)| facts.whole) {
                self.whole::<false>(constants, sums);
                return;
            }
            let halves = if single { 1 } else { 2 };
            for (half, ((panel, facts), constants)) in
                self.panels.iter().zip(constants).take(halves).enumerate()
            {
                for (at, sums) in sums.chunks_mut(ROWS).enumerate() {
                    let product = Quads {
                        a: self.a.add(at * ROWS * self.stride),
                        stride: self.stride,
                        rows: sums.len(),
                        b: *panel,
                        quads: self.quads,
                    };
                    let mut own = [*constants; ROWS];
                    product.add(facts, &mut own);
                    for (sums, own) in sums.iter_mut().zip(&own) {
                        sums[half * COLUMNS..][..COLUMNS].copy_from_slice(own);
                    }
                }
            }
        }
    }

    /// Writes the products of the rows, and returns the sums of the columns of both panels, which are read once for both.
    /// There must be room for all rows.
    ///
    /// # Safety
    /// All elements must be in bounds, and the panels must be two whose weights are
    /// [used as they are given](super::quad::used_as_given).
    pub(super) unsafe fn products_with_totals(&self, sums: &mut [PairSums]) -> [[i32; COLUMNS]; 2] {
        // SAFETY: as the caller promises; where weights are used as they are given, the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            self.whole::<true>([&[0; COLUMNS]; 2], &mut sums[..self.rows])
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("without `vpdpbusd`, weights are not used as they are given: {} sums", sums.len())
    }

    /// Writes the products of rows with two panels without split pairs. Returns the sums of the columns if they are asked
    /// for.
    #[cfg(target_arch = "x86_64")]
    unsafe fn whole<const TOTALS: bool>(
        &self,
        constants: [&[i32; COLUMNS]; 2],
        sums: &mut [PairSums],
    ) -> [[i32; COLUMNS]; 2] {
        // SAFETY: as the callers promise.
        unsafe {
            match self.rows {
                1 => self.vnni::<1, TOTALS>(constants, sums),
                2 => self.vnni::<2, TOTALS>(constants, sums),
                3 => self.vnni::<3, TOTALS>(constants, sums),
                4 => self.vnni::<4, TOTALS>(constants, sums),
                5 => self.vnni::<5, TOTALS>(constants, sums),
                6 => self.vnni::<6, TOTALS>(constants, sums),
                7 => self.vnni::<7, TOTALS>(constants, sums),
                _ => self.vnni::<8, TOTALS>(constants, sums),
            }
        }
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn vnni<const R: usize, const TOTALS: bool>(
        &self,
        constants: [&[i32; COLUMNS]; 2],
        sums: &mut [PairSums],
    ) -> [[i32; COLUMNS]; 2] {
        use std::arch::x86_64::{
            __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
            _mm512_storeu_si512,
        };
        // The sums of the columns are products with a row of ones.
        let (ones, mut columns) = (_mm512_set1_epi32(0x0101_0101), [_mm512_setzero_si512(); 2]);
        // SAFETY: as the caller of `products` promises; a row of constants is a vector, and so is a quad.
        unsafe {
            let first = [
                _mm512_loadu_si512(constants[0].as_ptr().cast::<__m512i>()),
                _mm512_loadu_si512(constants[1].as_ptr().cast::<__m512i>()),
            ];
            let mut totals = [first; R];
            let [even, odd] = [self.panels[0].0.weights.cast_const(), self.panels[1].0.weights.cast_const()];
            for quad in 0..self.quads {
                let weights = [
                    _mm512_loadu_si512(even.add(quad * QUAD).cast::<__m512i>()),
                    _mm512_loadu_si512(odd.add(quad * QUAD).cast::<__m512i>()),
                ];
                if TOTALS {
                    prefetch(even.wrapping_add(quad * QUAD + AHEAD));
                    prefetch(odd.wrapping_add(quad * QUAD + AHEAD));
                    columns[0] = _mm512_dpbusd_epi32(columns[0], ones, weights[0]);
                    columns[1] = _mm512_dpbusd_epi32(columns[1], ones, weights[1]);
                }
                for row in 0..R {
                    let four = self.a.add(row * self.stride + 4 * quad).cast::<i32>().read_unaligned();
                    let four = _mm512_set1_epi32(four);
                    totals[row][0] = _mm512_dpbusd_epi32(totals[row][0], four, weights[0]);
                    totals[row][1] = _mm512_dpbusd_epi32(totals[row][1], four, weights[1]);
                }
            }
            // A loop of as many turns as the compiler knows, so that the totals never leave the registers.
            for row in 0..R {
                let to = sums.as_mut_ptr().add(row).cast::<__m512i>();
                _mm512_storeu_si512(to, totals[row][0]);
                _mm512_storeu_si512(to.add(1), totals[row][1]);
            }
            let mut of_columns = [[0; COLUMNS]; 2];
            if TOTALS {
                _mm512_storeu_si512(of_columns[0].as_mut_ptr().cast::<__m512i>(), columns[0]);
                _mm512_storeu_si512(of_columns[1].as_mut_ptr().cast::<__m512i>(), columns[1]);
            }
            of_columns
        }
    }
}

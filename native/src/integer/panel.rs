//! Products of a few rows with a panel of packed columns.
//!
//! The rows are integers of 16 bits: 8-bit integers minus their zero point. A panel has 16 columns of 8-bit integers,
//! two neighbours along the inner dimension beside each other, so that one instruction multiplies both, adds the
//! products, and never saturates.

use super::wide;
use crate::lanes::Isa;

/// The columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The most rows that are multiplied at once.
pub(super) const ROWS: usize = 6;
/// The elements of a panel for two steps along the inner dimension.
pub(super) const PAIR: usize = 2 * COLUMNS;

/// The sums of the rows, column by column.
pub(super) type Sums = [[i32; COLUMNS]; ROWS];

/// Rows and a panel to multiply.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// The rows.
    pub a: *const i16,
    /// The distance between rows, in elements.
    pub a_stride: usize,
    /// The number of rows, from 1 to [`ROWS`].
    pub rows: usize,
    /// The panel.
    pub b: *const u8,
    /// Half of the inner dimension, rounded up. Both factors have zeros there in the place of missing elements.
    pub pairs: usize,
    /// Whether the columns have signed elements.
    pub signed: bool,
}

impl Panel {
    /// Computes the sums of the rows; those of other rows are left as they are.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn sums(&self, sums: &mut Sums) {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            // SAFETY: as the caller promises, and the processor has the instructions.
            return unsafe { self.vectors(sums) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.plain(sums) }
    }

    unsafe fn plain(&self, sums: &mut Sums) {
        for (row, sums) in sums[..self.rows].iter_mut().enumerate() {
            *sums = [0; COLUMNS];
            for at in 0..2 * self.pairs {
                // SAFETY: as the caller promises.
                let a = i32::from(unsafe { *self.a.add(row * self.a_stride + at) });
                for (column, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as the caller promises.
                    let b = unsafe { *self.b.add(at / 2 * PAIR + 2 * column + at % 2) };
                    *sum = sum.wrapping_add(a * i32::from(wide(b, self.signed)));
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn vectors(&self, sums: &mut Sums) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            match (self.signed, self.rows) {
                (true, 1) => self.avx2::<1, true>(sums),
                (true, 2) => self.avx2::<2, true>(sums),
                (true, 3) => self.avx2::<3, true>(sums),
                (true, 4) => self.avx2::<4, true>(sums),
                (true, 5) => self.avx2::<5, true>(sums),
                (true, _) => self.avx2::<6, true>(sums),
                (false, 1) => self.avx2::<1, false>(sums),
                (false, 2) => self.avx2::<2, false>(sums),
                (false, 3) => self.avx2::<3, false>(sums),
                (false, 4) => self.avx2::<4, false>(sums),
                (false, 5) => self.avx2::<5, false>(sums),
                (false, _) => self.avx2::<6, false>(sums),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const R: usize, const SIGNED: bool>(&self, sums: &mut Sums) {
        use std::arch::x86_64::{
            __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16,
            _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
        };
        // SAFETY: as the caller promises.
        unsafe {
            let mut totals = [[_mm256_setzero_si256(); 2]; R];
            for pair in 0..self.pairs {
                let from = self.b.add(pair * PAIR);
                let first = _mm_loadu_si128(from.cast::<__m128i>());
                let second = _mm_loadu_si128(from.add(COLUMNS).cast::<__m128i>());
                // Closures that a library function calls would not be compiled for these instructions.
                let (first, second) = if SIGNED {
                    (_mm256_cvtepi8_epi16(first), _mm256_cvtepi8_epi16(second))
                } else {
                    (_mm256_cvtepu8_epi16(first), _mm256_cvtepu8_epi16(second))
                };
                for (row, totals) in totals.iter_mut().enumerate() {
                    let both = self.a.add(row * self.a_stride + 2 * pair).cast::<i32>().read_unaligned();
                    let both = _mm256_set1_epi32(both);
                    totals[0] = _mm256_add_epi32(totals[0], _mm256_madd_epi16(both, first));
                    totals[1] = _mm256_add_epi32(totals[1], _mm256_madd_epi16(both, second));
                }
            }
            for (sums, totals) in sums.iter_mut().zip(totals) {
                let to = sums.as_mut_ptr();
                _mm256_storeu_si256(to.cast::<__m256i>(), totals[0]);
                _mm256_storeu_si256(to.add(8).cast::<__m256i>(), totals[1]);
            }
        }
    }
}

/// Returns the product of a row of 8-bit integers, minus their zero point, with 16-bit integers.
///
/// # Safety
/// Both factors must have `depth` elements.
pub(super) unsafe fn dot(a: *const u8, signed: bool, point: i16, b: *const i16, depth: usize) -> i32 {
    // SAFETY: as the caller promises.
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, depth), std::slice::from_raw_parts(b, depth)) };
    let rest = depth % 16;
    let ends = (&a[depth - rest..], &b[depth - rest..]);
    let end = ends
        .0
        .iter()
        .zip(ends.1)
        .fold(0_i32, |sum, (a, b)| sum.wrapping_add(i32::from(wide(*a, signed) - point) * i32::from(*b)));
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return end.wrapping_add(unsafe { dot_avx2(&a[..depth - rest], signed, point, b) });
    }
    let pairs = a[..depth - rest].iter().zip(b);
    pairs.fold(end, |sum, (a, b)| sum.wrapping_add(i32::from(wide(*a, signed) - point) * i32::from(*b)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn dot_avx2(a: &[u8], signed: bool, point: i16, b: &[i16]) -> i32 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm256_sub_epi16,
    };
    // SAFETY: both factors have 16 elements for each step, and the array has the size of a vector.
    unsafe {
        let point = _mm256_set1_epi16(point);
        let mut total = _mm256_setzero_si256();
        for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
            let bytes = _mm_loadu_si128(a.as_ptr().cast::<__m128i>());
            let a = if signed { _mm256_cvtepi8_epi16(bytes) } else { _mm256_cvtepu8_epi16(bytes) };
            let b = _mm256_loadu_si256(b.as_ptr().cast::<__m256i>());
            total = _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_sub_epi16(a, point), b));
        }
        let mut lanes = [0_i32; 8];
        _mm256_storeu_si256(lanes.as_mut_ptr().cast::<__m256i>(), total);
        lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
    }
}

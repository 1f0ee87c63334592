//! Products of a few rows with a panel of packed columns, four elements of each at a time.
//!
//! An instruction of AVX2 multiplies 32 bytes without a sign by 32 bytes with one, and adds neighbours in 16 bits, where
//! it saturates. It never does so here: the first factor is the absolute value of a row's elements, at most 128, and the
//! second one is the weights with the signs of the row's elements, at most 127. So a pair is at most 2 * 128 * 127, which
//! is less than 2^15. A weight of -128 has no opposite; panels with such weights are computed in two parts, see [`Part`].

use crate::lanes::Isa;

/// The columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The most rows that are multiplied at once.
pub(super) const ROWS: usize = 4;
/// The elements of a panel for four steps along the inner dimension.
pub(super) const QUAD: usize = 4 * COLUMNS;

/// The sums of the rows, column by column.
pub(super) type Sums = [[i32; COLUMNS]; ROWS];

/// Rows and a panel to multiply, both of integers with a sign.
#[derive(Clone, Copy)]
pub(super) struct Quads {
    /// The rows.
    pub a: *const i8,
    /// The absolute values of the rows' elements.
    pub sizes: *const u8,
    /// The distance between rows, in elements.
    pub stride: usize,
    /// The number of rows, from 1 to [`ROWS`].
    pub rows: usize,
    /// The panel.
    pub b: *const u8,
    /// A quarter of the inner dimension, rounded up. Rows have zeros in the place of missing elements.
    pub quads: usize,
    /// What is added to the bits of a weight to make it one with a sign: 128 for weights without a sign, modulo 256.
    pub shift: u8,
}

/// What a product takes of the weights. The parts other than the first one add up to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All of them, none of which is -128.
    All,
    /// -127 in the place of -128.
    Bounded,
    /// -1 in the place of -128, and otherwise 0.
    Rest,
}

impl Quads {
    /// Adds the products of the rows to sums; those of other rows are left as they are.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn add(&self, least: bool, sums: &mut Sums) {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            // SAFETY: as the caller promises, and the processor has the instructions.
            unsafe {
                if least {
                    self.rows_of::<{ Part::Bounded as u8 }>(sums);
                    self.rows_of::<{ Part::Rest as u8 }>(sums);
                } else {
                    self.rows_of::<{ Part::All as u8 }>(sums);
                }
            }
            return;
        }
        let _ = least;
        for (row, sums) in sums[..self.rows].iter_mut().enumerate() {
            for at in 0..4 * self.quads {
                // SAFETY: as the caller promises.
                let a = i32::from(unsafe { *self.a.add(row * self.stride + at) });
                for (column, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as the caller promises.
                    let b = unsafe { *self.b.add(at / 4 * QUAD + 4 * column + at % 4) };
                    *sum = sum.wrapping_add(a * i32::from(b.wrapping_add(self.shift).cast_signed()));
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn rows_of<const PART: u8>(&self, sums: &mut Sums) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.rows {
                1 => self.avx2::<1, PART>(sums),
                2 => self.avx2::<2, PART>(sums),
                3 => self.avx2::<3, PART>(sums),
                _ => self.avx2::<4, PART>(sums),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const R: usize, const PART: u8>(&self, sums: &mut Sums) {
        use std::arch::x86_64::{
            __m256i, _mm256_add_epi8, _mm256_add_epi32, _mm256_cmpeq_epi8, _mm256_loadu_si256,
            _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epi8, _mm256_set1_epi8, _mm256_set1_epi16,
            _mm256_set1_epi32, _mm256_setzero_si256, _mm256_sign_epi8, _mm256_storeu_si256,
        };
        let ones = _mm256_set1_epi16(1);
        let shift = _mm256_set1_epi8(self.shift.cast_signed());
        let mut totals = [[_mm256_setzero_si256(); 2]; R];
        // SAFETY: as the caller promises.
        unsafe {
            for quad in 0..self.quads {
                let from = self.b.add(quad * QUAD).cast::<__m256i>();
                let mut weights = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
                for weights in &mut weights {
                    *weights = _mm256_add_epi8(*weights, shift);
                    if PART == Part::Bounded as u8 {
                        *weights = _mm256_max_epi8(*weights, _mm256_set1_epi8(-127));
                    } else if PART == Part::Rest as u8 {
                        *weights = _mm256_cmpeq_epi8(*weights, _mm256_set1_epi8(-128));
                    }
                }
                for (row, totals) in totals.iter_mut().enumerate() {
                    let at = row * self.stride + 4 * quad;
                    let size = _mm256_set1_epi32(self.sizes.add(at).cast::<i32>().read_unaligned());
                    let sign = _mm256_set1_epi32(self.a.add(at).cast::<i32>().read_unaligned());
                    for (total, weights) in totals.iter_mut().zip(weights) {
                        let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(weights, sign));
                        *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, ones));
                    }
                }
            }
            for (sums, totals) in sums.iter_mut().zip(totals) {
                for (half, total) in totals.into_iter().enumerate() {
                    let to = sums.as_mut_ptr().add(8 * half).cast::<__m256i>();
                    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), total));
                }
            }
        }
    }
}

/// Adds up the columns of a panel of weights with a sign after the shift, and returns whether one of them is -128.
///
/// # Safety
/// The panel must have `depth` elements in each column, rounded up to a multiple of four.
pub(super) unsafe fn survey(b: *const u8, depth: usize, shift: u8, totals: &mut [i32; COLUMNS]) -> bool {
    // SAFETY: as the caller promises.
    let panel = unsafe { std::slice::from_raw_parts(b, depth.div_ceil(4) * QUAD) };
    let (whole, last) = panel.split_at(depth / 4 * QUAD);
    // What fills up the last quad does not count.
    let mut least = survey_plain(last, depth % 4, shift, totals);
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return least | unsafe { survey_avx2(whole, shift, totals) };
    }
    least |= survey_plain(whole, 4, shift, totals);
    least
}

fn survey_plain(panel: &[u8], counted: usize, shift: u8, totals: &mut [i32; COLUMNS]) -> bool {
    let mut least = false;
    for quad in panel.chunks_exact(QUAD) {
        for (total, weights) in totals.iter_mut().zip(quad.chunks_exact(4)) {
            for weight in &weights[..counted] {
                let weight = weight.wrapping_add(shift).cast_signed();
                least |= weight == i8::MIN;
                *total += i32::from(weight);
            }
        }
    }
    least
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn survey_avx2(panel: &[u8], shift: u8, totals: &mut [i32; COLUMNS]) -> bool {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_add_epi32, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_set1_epi16,
        _mm256_setzero_si256, _mm256_storeu_si256,
    };
    let ones = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
    let shift = _mm256_set1_epi8(shift.cast_signed());
    let mut sums = [_mm256_setzero_si256(); 2];
    let mut found = _mm256_setzero_si256();
    // SAFETY: a quad has two vectors, and so has the array of totals.
    unsafe {
        for quad in panel.chunks_exact(QUAD) {
            for (half, sum) in sums.iter_mut().enumerate() {
                let from = quad.as_ptr().cast::<__m256i>().add(half);
                let weights = _mm256_add_epi8(_mm256_loadu_si256(from), shift);
                found = _mm256_or_si256(found, _mm256_cmpeq_epi8(weights, _mm256_set1_epi8(-128)));
                let pairs = _mm256_maddubs_epi16(ones.0, weights);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones.1));
            }
        }
        for (half, sum) in sums.into_iter().enumerate() {
            let to = totals.as_mut_ptr().cast::<__m256i>().add(half);
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum));
        }
    }
    _mm256_movemask_epi8(found) != 0
}

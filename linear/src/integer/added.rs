//! Levels of the sum or the product of two numbers, both of which are given by levels: what a residual connection adds, and
//! what a gate multiplies.
//!
//! The levels are those of the chain, step by step. It is faster since four vectors become bytes together, and since
//! zero points are subtracted from integers, which is as exact.

use super::affine::Bytes;
use crate::lanes::Isa;

/// Levels of one operand.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub from: *const u8,
    /// The distance between rows.
    pub row: usize,
    /// What is changed in the bits of a level to make a number without a sign of it, and the zero point of this number.
    pub flip: u8,
    pub zero: i32,
    pub scale: f32,
}

/// A sum or a product of two terms, and where its levels go.
#[derive(Clone, Copy)]
pub(super) struct Added {
    pub terms: [Term; 2],
    /// Whether it is a product.
    pub multiplied: bool,
    pub target: *mut u8,
    pub target_row: usize,
    pub rows: usize,
    pub columns: usize,
    pub rounding: Bytes,
}

impl Added {
    /// Returns whether the processor has the instructions.
    pub(super) fn is_supported() -> bool {
        cfg!(target_arch = "x86_64") && Isa::running() >= Isa::Avx2
    }

    /// Writes the levels.
    ///
    /// # Safety
    /// All elements must be in bounds, results divided by the scale of the levels must fit into 32 bits, and this way must be
    /// [supported](Added::is_supported).
    pub(super) unsafe fn write(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises.
        unsafe {
            if Isa::running() == Isa::Avx512
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                self.avx512();
            } else {
                self.avx2();
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("there is no AVX2");
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self) {
        use std::arch::x86_64::*;
        const LANES: usize = 8;
        const BYTES: usize = 4 * LANES;
        // Copies, which no result that is written can change.
        let Self { rounding, target, target_row, rows, columns, terms, multiplied } = *self;
        let flips = [0, 1].map(|n: usize| _mm_set1_epi8(terms[n].flip.cast_signed()));
        let zeros = [0, 1].map(|n: usize| _mm256_set1_epi32(terms[n].zero));
        let scales = [0, 1].map(|n: usize| _mm256_set1_ps(terms[n].scale));
        // SAFETY: as the caller of `write` promises; bytes beyond the last column are neither read nor written.
        unsafe {
            for row in 0..rows {
                for column in (0..columns).step_by(BYTES) {
                    let count = (columns - column).min(BYTES);
                    let mut some = [[0_u8; BYTES]; 2];
                    let mut from = [std::ptr::null(); 2];
                    for n in 0..2 {
                        from[n] = terms[n].from.add(row * terms[n].row + column);
                        if count < BYTES {
                            std::ptr::copy_nonoverlapping(from[n], some[n].as_mut_ptr(), count);
                            from[n] = some[n].as_ptr();
                        }
                    }
                    let mut x = [_mm256_setzero_ps(); 4];
                    for at in 0..4 {
                        let mut numbers = [_mm256_setzero_ps(); 2];
                        for n in 0..2 {
                            let levels = _mm_loadl_epi64(from[n].add(at * LANES).cast());
                            let levels = _mm256_cvtepu8_epi32(_mm_xor_si128(levels, flips[n]));
                            let level = _mm256_sub_epi32(levels, zeros[n]);
                            numbers[n] = _mm256_mul_ps(_mm256_cvtepi32_ps(level), scales[n]);
                        }
                        x[at] = match multiplied {
                            true => _mm256_mul_ps(numbers[0], numbers[1]),
                            false => _mm256_add_ps(numbers[0], numbers[1]),
                        };
                    }
                    let bytes = rounding.bytes_of_eights(x);
                    super::levels::store_first(bytes, target.add(row * target_row + column), count);
                }
            }
        }
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn avx512(&self) {
        use std::arch::x86_64::*;
        const LANES: usize = 16;
        const BYTES: usize = 4 * LANES;
        // Copies, which no result that is written can change.
        let Self { rounding, target, target_row, rows, columns, multiplied, .. } = *self;
        let flips = self.terms.map(|term| _mm_set1_epi8(term.flip.cast_signed()));
        let zeros = self.terms.map(|term| _mm512_set1_epi32(term.zero));
        let scales = self.terms.map(|term| _mm512_set1_ps(term.scale));
        let terms = self.terms;
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        // SAFETY: as the caller of `write` promises; bytes beyond the last column are neither read nor written.
        unsafe {
            for row in 0..rows {
                let from = terms.map(|term| term.from.add(row * term.row));
                let to = target.add(row * target_row);
                for column in (0..columns).step_by(BYTES) {
                    let count = (columns - column).min(BYTES);
                    let some = u64::MAX >> (BYTES - count);
                    let mut x = [_mm512_setzero_ps(); 4];
                    for at in 0..4 {
                        let mut numbers = [_mm512_setzero_ps(); 2];
                        for n in 0..2 {
                            let own = (some >> (at * LANES)) as __mmask16;
                            let from = from[n].wrapping_add(column + at * LANES).cast();
                            let levels = _mm_xor_si128(_mm_maskz_loadu_epi8(own, from), flips[n]);
                            let level = _mm512_sub_epi32(_mm512_cvtepu8_epi32(levels), zeros[n]);
                            numbers[n] = _mm512_mul_ps(_mm512_cvtepi32_ps(level), scales[n]);
                        }
                        x[at] = match multiplied {
                            true => _mm512_mul_ps(numbers[0], numbers[1]),
                            false => _mm512_add_ps(numbers[0], numbers[1]),
                        };
                    }
                    let bytes = _mm512_permutexvar_epi32(order, rounding.bytes(x));
                    _mm512_mask_storeu_epi8(to.add(column).cast(), some, bytes);
                }
            }
        }
    }
}

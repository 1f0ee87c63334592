//! Levels of the sum or the product of two levels, by a formula without intermediate roundings.
//!
//! The definition rounds each operand's number, their sum or product, and its quotient by the scale. The formula is one
//! multiplication and addition for each operand, which rounds otherwise, so that a result next to the middle of two levels may
//! become the other one. There are only 65,536 pairs of levels: the formula is compared with the definition on all of them,
//! and is taken only if all results are the same.

use super::added::{Added, Term};
use super::affine::Bytes;
use crate::lanes::Isa;

/// A formula for the levels of two levels `x` and `y`, as bytes without a sign.
#[derive(Clone, Copy)]
pub(super) enum Formula {
    /// `x a + (y b + c)`.
    Sum { factors: [f32; 2], term: f32 },
    /// `(x - p) (y - q) a + c`; the product is a whole number below 2^24, so that it is exact.
    Product { points: [f32; 2], factor: f32, term: f32 },
}

/// The operands and the rounding of a formula, which tell it from all others.
pub(super) type Key = [u32; 13];

/// The pairs that are compared at once: one level of the first operand with all of the second one.
const LEVELS: usize = 256;

impl Formula {
    /// Returns what the formula of these operands depends on.
    pub(super) fn key(terms: &[Term; 2], multiplied: bool, rounding: &Bytes) -> Key {
        let [a, b] =
            terms.map(|term| [u32::from(term.flip), term.zero.cast_unsigned(), term.scale.to_bits()]);
        let [scale, zero, least, most] =
            [rounding.scale, rounding.zero, rounding.least, rounding.most].map(f32::to_bits);
        let bounds = u32::from(u16::from_le_bytes(rounding.bounds));
        let flip = u32::from(rounding.flip);
        [a[0], a[1], a[2], b[0], b[1], b[2], u32::from(multiplied), scale, zero, least, most, bounds, flip]
    }

    /// Returns a formula that gives the levels of the definition for all pairs; `None` if none of some candidates does.
    /// This takes some tens of microseconds. [`Added`] must be supported, with terms and a rounding that it takes.
    pub(super) fn find(terms: &[Term; 2], multiplied: bool, rounding: &Bytes) -> Option<Self> {
        Self::candidates(terms, multiplied, rounding)
            .into_iter()
            .find(|formula| formula.holds(terms, multiplied, rounding))
    }

    /// Returns the formulas whose constants are the nearest ones, or those next to them.
    #[allow(clippy::cast_possible_truncation)]
    fn candidates(terms: &[Term; 2], multiplied: bool, rounding: &Bytes) -> Vec<Self> {
        let scale = f64::from(rounding.scale);
        let [p, q] = terms.map(|term| f64::from(term.zero));
        let near = |value: f64| {
            let value = value as f32;
            [value, value.next_up(), value.next_down()]
        };
        let mut candidates = Vec::new();
        if multiplied {
            let factor = f64::from(terms[0].scale) * f64::from(terms[1].scale) / scale;
            let points = [p as f32, q as f32];
            for factor in near(factor) {
                candidates.push(Self::Product { points, factor, term: rounding.zero });
            }
            return candidates;
        }
        let [first, second] = terms.map(|term| near(f64::from(term.scale) / scale));
        for a in first {
            for b in second {
                // The term allows for the rounding of the factors.
                let term = f64::from(rounding.zero) - p * f64::from(a) - q * f64::from(b);
                for term in near(term) {
                    candidates.push(Self::Sum { factors: [a, b], term });
                }
            }
        }
        candidates
    }

    /// Returns whether the formula gives the levels of the definition for all pairs.
    fn holds(self, terms: &[Term; 2], multiplied: bool, rounding: &Bytes) -> bool {
        let second: [u8; LEVELS] = std::array::from_fn(|level| level as u8);
        let mut results = [[0_u8; LEVELS]; 2];
        (0..=u8::MAX).all(|first| {
            let first = [first; LEVELS];
            let [definition, formula] = results.each_mut().map(|target| Added {
                terms: [
                    Term { from: first.as_ptr(), row: 0, ..terms[0] },
                    Term { from: second.as_ptr(), row: 0, ..terms[1] },
                ],
                multiplied,
                target: target.as_mut_ptr(),
                target_row: LEVELS,
                rows: 1,
                columns: LEVELS,
                rounding: *rounding,
            });
            // SAFETY: the operands and the target have this many elements, and the caller of `find` promises the rest.
            unsafe {
                definition.write();
                self.write(&formula);
            }
            results[0] == results[1]
        })
    }

    /// Writes the levels.
    ///
    /// # Safety
    /// As for [`Added::write`].
    pub(super) unsafe fn write(&self, added: &Added) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises.
        unsafe {
            if Isa::running() == Isa::Avx512
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                self.avx512(added);
            } else {
                self.avx2(added);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("there is no AVX2");
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, added: &Added) {
        use std::arch::x86_64::*;
        const LANES: usize = 8;
        const BYTES: usize = 4 * LANES;
        // Copies, which no result that is written can change.
        let (formula, Added { rounding, target, target_row, rows, columns, terms, .. }) = (*self, *added);
        let flips = [0, 1].map(|n: usize| _mm256_set1_epi8(terms[n].flip.cast_signed()));
        // SAFETY: as the caller promises; bytes beyond the last column are neither read nor written.
        unsafe {
            for row in 0..rows {
                for column in (0..columns).step_by(BYTES) {
                    let count = (columns - column).min(BYTES);
                    let mut some = [[0_u8; BYTES]; 2];
                    for n in 0..2 {
                        let from = terms[n].from.add(row * terms[n].row + column);
                        if count < BYTES {
                            std::ptr::copy_nonoverlapping(from, some[n].as_mut_ptr(), count);
                        } else {
                            some[n] = from.cast::<[u8; BYTES]>().read_unaligned();
                        }
                        let bytes = _mm256_loadu_si256(some[n].as_ptr().cast());
                        _mm256_storeu_si256(some[n].as_mut_ptr().cast(), _mm256_xor_si256(bytes, flips[n]));
                    }
                    let mut whole = [_mm256_setzero_si256(); 4];
                    for at in 0..4 {
                        let mut numbers = [_mm256_setzero_ps(); 2];
                        for n in 0..2 {
                            let levels = _mm_loadl_epi64(some[n].as_ptr().add(at * LANES).cast());
                            numbers[n] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(levels));
                        }
                        let result = match formula {
                            Self::Sum { factors: [a, b], term } => {
                                let second =
                                    _mm256_fmadd_ps(numbers[1], _mm256_set1_ps(b), _mm256_set1_ps(term));
                                _mm256_fmadd_ps(numbers[0], _mm256_set1_ps(a), second)
                            }
                            Self::Product { points: [p, q], factor, term } => {
                                let first = _mm256_sub_ps(numbers[0], _mm256_set1_ps(p));
                                let second = _mm256_sub_ps(numbers[1], _mm256_set1_ps(q));
                                let product = _mm256_mul_ps(first, second);
                                _mm256_fmadd_ps(product, _mm256_set1_ps(factor), _mm256_set1_ps(term))
                            }
                        };
                        whole[at] = _mm256_cvtps_epi32(result);
                    }
                    let bytes = super::levels::bytes_of_eights(whole, rounding.bounds, rounding.flip);
                    super::levels::store_first(bytes, target.add(row * target_row + column), count);
                }
            }
        }
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn avx512(&self, added: &Added) {
        use std::arch::x86_64::*;
        const BYTES: usize = 64;
        // Copies, which no result that is written can change.
        let (formula, Added { rounding, target, target_row, rows, columns, terms, .. }) = (*self, *added);
        let flips = [0, 1].map(|n: usize| _mm512_set1_epi8(terms[n].flip.cast_signed()));
        // Of each part of 16 bytes, a vector has four, as 32-bit integers. They return to their places when four vectors become
        // bytes.
        let spread = [0, 1, 2, 3].map(|at: i32| {
            let byte = |lane: i32| -0x100 | (4 * at + lane);
            _mm512_broadcast_i32x4(_mm_setr_epi32(byte(0), byte(1), byte(2), byte(3)))
        });
        // SAFETY: as the caller promises; bytes beyond the last column are neither read nor written.
        unsafe {
            for row in 0..rows {
                let from = [0, 1].map(|n: usize| terms[n].from.add(row * terms[n].row));
                let to = target.add(row * target_row);
                for column in (0..columns).step_by(BYTES) {
                    let some = u64::MAX >> (BYTES - (columns - column).min(BYTES));
                    let mut levels = [_mm512_setzero_si512(); 2];
                    for n in 0..2 {
                        let bytes = _mm512_maskz_loadu_epi8(some, from[n].wrapping_add(column).cast());
                        levels[n] = _mm512_xor_si512(bytes, flips[n]);
                    }
                    let mut whole = [_mm512_setzero_si512(); 4];
                    for at in 0..4 {
                        let mut numbers = [_mm512_setzero_ps(); 2];
                        for n in 0..2 {
                            numbers[n] = _mm512_cvtepi32_ps(_mm512_shuffle_epi8(levels[n], spread[at]));
                        }
                        let result = match formula {
                            Self::Sum { factors: [a, b], term } => {
                                let second =
                                    _mm512_fmadd_ps(numbers[1], _mm512_set1_ps(b), _mm512_set1_ps(term));
                                _mm512_fmadd_ps(numbers[0], _mm512_set1_ps(a), second)
                            }
                            Self::Product { points: [p, q], factor, term } => {
                                let first = _mm512_sub_ps(numbers[0], _mm512_set1_ps(p));
                                let second = _mm512_sub_ps(numbers[1], _mm512_set1_ps(q));
                                let product = _mm512_mul_ps(first, second);
                                _mm512_fmadd_ps(product, _mm512_set1_ps(factor), _mm512_set1_ps(term))
                            }
                        };
                        whole[at] = _mm512_cvtps_epi32(result);
                    }
                    let bytes = super::levels::bytes(whole, rounding.bounds, rounding.flip);
                    _mm512_mask_storeu_epi8(to.wrapping_add(column).cast(), some, bytes);
                }
            }
        }
    }
}

//! Levels of sums that are multiplied by one number and added to another, both of their column: what a convolution of
//! levels does with its sums.
//!
//! The levels are those of the chain, step by step. It is faster since four vectors become bytes together, by instructions
//! that bound them as well.

use super::levels::Levels;
use crate::lanes::Isa;

/// Sums, and where their levels go.
pub(super) struct Sums {
    pub source: *const i32,
    /// The distance between rows, in elements.
    pub source_row: usize,
    pub target: *mut u8,
    pub target_row: usize,
    pub rows: usize,
    /// The factors, and the terms. The distance between columns is zero or one.
    pub operands: [(*const f32, usize); 2],
    pub rounding: Bytes,
}

/// How numbers become bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub scale: f32,
    /// One divided by the scale.
    pub inverse: f32,
    /// The zero point, as a byte without a sign, and the least and the greatest byte minus it.
    pub zero: f32,
    pub least: f32,
    pub most: f32,
    /// The least and the greatest byte.
    pub bounds: [u8; 2],
    /// What is changed in the bits of a byte without a sign to make a level of it.
    pub flip: u8,
    /// The distance to the middle between two levels within which a sum may round to another level if its factor and its
    /// term are divided by the scale first; see [`Bytes::near`].
    pub near: f32,
}

impl Bytes {
    /// The distance to the middle between two levels within which a product with the inverse of the scale may round to
    /// another level than the quotient.
    ///
    /// Let `u = 2^-24`. With a quotient `q` and the zero point `z`, the quotient is rounded by `u |q|`, the inverse by as much,
    /// and the product and its sum with `z` by `u (|q| + |q + z|)`. Both `|q|` and `|q + z|` are less than 257 where a middle
    /// decides: less than `4 * 257 u < 6.2e-5` in all.
    const NEAR: f32 = 8e-5;
    /// From this distance on, too many sums are near a middle.
    const FARTHEST: f32 = 5e-4;

    /// Returns the distance to the middle between two levels within which a sum of a product and a term may round to another
    /// level if the factor and the term are multiplied by the inverse of the scale first. `term` is the largest magnitude of
    /// a term, times this inverse.
    ///
    /// Let `u = 2^-24`, `p` the product and `t` the term, both divided by the scale, and `q = p + t` their quotient, to which
    /// the zero point `z` is added. Step by step, the product is rounded by `u |p|`, and the sum and the quotient by `u |q|`
    /// each. With the inverse, the product has the roundings of the inverse and of the factor, and one of its own on processors
    /// without FMA: `3 u |p|` in all. The term has `u |t| + u |t + z|`, and their sum `u |q + z|`. Where a middle decides, `|q|` and `|q + z|` are less than 257 and
    /// `|z|` less than 256, so `|p|` is less than `257 + |t|`: less than `u (6 |t| + 2100)` in all.
    pub fn near(term: f32) -> f32 {
        const UNIT: f32 = f32::EPSILON / 2.0;
        UNIT * (6.0 * term + 2100.0)
    }

    /// The largest magnitudes of factors and terms, divided by the scale: a result then fits into 32 bits.
    pub const FACTOR: f32 = 0.5;
    pub const TERM: f32 = 1e6;

    /// Returns numbers that round to the bytes of others, if they are bounded. They fit into 32 bits, or are
    /// NaN.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    pub(super) unsafe fn levels<V: Levels>(&self, x: [V; 4]) -> [V; 4] {
        // SAFETY: the processor has the instruction set, as the caller promises.
        unsafe {
            let (inverse, zero) = (V::splat(self.inverse), V::splat(self.zero));
            let mut levels = [V::splat(0.0); 4];
            let mut farthest = V::splat(0.0);
            for at in 0..4 {
                levels[at] = x[at].mul_add(inverse, zero);
                farthest = levels[at].fraction().greater(farthest);
            }
            if V::any(V::splat(0.5 - Self::NEAR).less(farthest)) {
                let (scale, least, most) = (V::splat(self.scale), V::splat(self.least), V::splat(self.most));
                for at in 0..4 {
                    levels[at] = x[at].div(scale).max(least).min(most).round_even().add(zero);
                }
            }
            levels
        }
    }

    /// Returns the bytes of four vectors of numbers; each part of 16 bytes has four of each vector. They are those that
    /// [`levels`](Bytes::levels) round to, by instructions that more units of processors have.
    ///
    /// # Safety
    /// The processor must have AVX512DQ and AVX512BW.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn bytes(&self, x: [std::arch::x86_64::__m512; 4]) -> std::arch::x86_64::__m512i {
        use std::arch::x86_64::*;
        // SAFETY: as the caller promises.
        unsafe {
            let (inverse, zero) = (_mm512_set1_ps(self.inverse), _mm512_set1_ps(self.zero));
            let (one, magnitude) = (_mm512_set1_ps(1.0), _mm512_set1_epi32(i32::MAX));
            // Numbers without a sign are ordered as their bits are.
            let near = _mm512_set1_epi32((0.5 - Self::NEAR).to_bits().cast_signed());
            let mut whole = [_mm512_setzero_si512(); 4];
            let mut farthest = _mm512_setzero_si512();
            for at in 0..4 {
                let level = _mm512_fmadd_ps(x[at], inverse, zero);
                whole[at] = _mm512_cvtps_epi32(level);
                let fraction = _mm512_fmsub_ps(level, one, _mm512_cvtepi32_ps(whole[at]));
                let distance = _mm512_and_si512(_mm512_castps_si512(fraction), magnitude);
                farthest = _mm512_max_epu32(farthest, distance);
            }
            if _mm512_cmpgt_epu32_mask(farthest, near) != 0 {
                let (scale, least) = (_mm512_set1_ps(self.scale), _mm512_set1_ps(self.least));
                for at in 0..4 {
                    let level = _mm512_div_ps(x[at], scale);
                    // NaN becomes the second operand.
                    let level = _mm512_min_ps(_mm512_max_ps(level, least), _mm512_set1_ps(self.most));
                    let whole_zero = _mm512_cvtps_epi32(zero);
                    whole[at] = _mm512_add_epi32(_mm512_cvtps_epi32(level), whole_zero);
                }
            }
            super::levels::bytes(whole, self.bounds, self.flip)
        }
    }

    /// Returns the bytes of four vectors of eight numbers, in their order, as [`bytes`](Bytes::bytes) does for vectors of
    /// sixteen.
    ///
    /// # Safety
    /// The processor must have AVX2 and FMA.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn bytes_of_eights(
        &self,
        x: [std::arch::x86_64::__m256; 4],
    ) -> std::arch::x86_64::__m256i {
        use std::arch::x86_64::*;
        // SAFETY: as the caller promises.
        unsafe {
            let (inverse, zero) = (_mm256_set1_ps(self.inverse), _mm256_set1_ps(self.zero));
            let magnitude = _mm256_set1_epi32(i32::MAX);
            // Numbers without a sign are ordered as their bits are.
            let near = _mm256_set1_epi32((0.5 - Self::NEAR).to_bits().cast_signed());
            let mut whole = [_mm256_setzero_si256(); 4];
            let mut farthest = _mm256_setzero_si256();
            for at in 0..4 {
                let level = _mm256_fmadd_ps(x[at], inverse, zero);
                whole[at] = _mm256_cvtps_epi32(level);
                let fraction = _mm256_sub_ps(level, _mm256_cvtepi32_ps(whole[at]));
                let distance = _mm256_and_si256(_mm256_castps_si256(fraction), magnitude);
                farthest = _mm256_max_epi32(farthest, distance);
            }
            if _mm256_movemask_epi8(_mm256_cmpgt_epi32(farthest, near)) != 0 {
                let (scale, least) = (_mm256_set1_ps(self.scale), _mm256_set1_ps(self.least));
                let whole_zero = _mm256_cvtps_epi32(zero);
                for at in 0..4 {
                    let level = _mm256_div_ps(x[at], scale);
                    // NaN becomes the second operand.
                    let level = _mm256_min_ps(_mm256_max_ps(level, least), _mm256_set1_ps(self.most));
                    whole[at] = _mm256_add_epi32(_mm256_cvtps_epi32(level), whole_zero);
                }
            }
            super::levels::bytes_of_eights(whole, self.bounds, self.flip)
        }
    }
}

impl Sums {
    /// Writes the levels of the first columns and returns their number. Few rows, and columns that fill no vector, are left.
    ///
    /// # Safety
    /// All elements must be in bounds. The factors and terms, divided by the scale, must be at most [`Bytes::FACTOR`] and
    /// [`Bytes::TERM`], or NaN.
    pub(super) unsafe fn write(&self, columns: usize) -> usize {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            match Isa::running() {
                Isa::Avx512 if is_x86_feature_detected!("avx512bw") => return self.avx512(columns),
                Isa::Avx512 | Isa::Avx2 => return self.avx2(columns),
                _ => {}
            }
            self.write_on::<[f32; 8]>(columns)
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512(&self, columns: usize) -> usize {
        // SAFETY: as the caller promises.
        unsafe { self.write_on::<std::arch::x86_64::__m512>(columns) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, columns: usize) -> usize {
        // SAFETY: as the caller promises.
        unsafe { self.write_on::<std::arch::x86_64::__m256>(columns) }
    }

    #[inline(always)]
    unsafe fn write_on<V: Levels>(&self, columns: usize) -> usize {
        let mut column = 0;
        // SAFETY: as the caller promises.
        unsafe {
            macro_rules! blocks {
                ($wide:literal) => {
                    // Four vectors are one row, or several ones.
                    while columns - column >= $wide * V::COUNT && self.rows >= 4 / $wide {
                        self.block::<V, $wide>(column);
                        column += $wide * V::COUNT;
                    }
                };
            }
            if V::COUNT == 8 {
                blocks!(4);
            }
            blocks!(2);
            blocks!(1);
            // The last vector has some columns of the one before, if columns do not fill it.
            if column < columns && columns >= V::COUNT && self.rows >= 4 {
                self.block::<V, 1>(columns - V::COUNT);
                column = columns;
            }
        }
        column
    }

    /// Writes the levels of as many columns as `WIDE` vectors have.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn block<V: Levels, const WIDE: usize>(&self, first: usize) {
        let rows = const { 4 / WIDE };
        // SAFETY: as the caller promises.
        unsafe {
            let (mut factors, mut terms) = ([V::splat(0.0); WIDE], [V::splat(0.0); WIDE]);
            for at in 0..WIDE {
                let column = first + at * V::COUNT;
                let [factor, term] = self.operands;
                factors[at] = if factor.1 == 0 { V::splat(*factor.0) } else { V::load(factor.0.add(column)) };
                terms[at] = if term.1 == 0 { V::splat(*term.0) } else { V::load(term.0.add(column)) };
            }
            let rounding = self.rounding;
            let (inverse, zero) = (V::splat(rounding.inverse), V::splat(rounding.zero));
            let (mut divided, mut added) = (factors, terms);
            for at in 0..WIDE {
                (divided[at], added[at]) = (factors[at].mul(inverse), terms[at].mul_add(inverse, zero));
            }
            let once = rounding.near <= Bytes::FARTHEST;
            let near = V::splat(0.5 - rounding.near);
            let mut row = 0;
            while row < self.rows {
                // The last rows are some that were done before, if they do not fill the vectors.
                row = row.min(self.rows - rows);
                let mut x = [V::splat(0.0); 4];
                let mut levels = x;
                let mut farthest = V::splat(0.0);
                for at in 0..4 {
                    let from = (row + at / WIDE) * self.source_row + first + at % WIDE * V::COUNT;
                    x[at] = V::of_i32(self.source.add(from));
                    levels[at] = x[at].mul_add(divided[at % WIDE], added[at % WIDE]);
                    farthest = levels[at].fraction().greater(farthest);
                }
                if !once || V::any(near.less(farthest)) {
                    for at in 0..4 {
                        x[at] = x[at].mul(factors[at % WIDE]).add(terms[at % WIDE]);
                    }
                    levels = rounding.levels(x);
                }
                let to = self.target.add(row * self.target_row + first);
                V::store_bytes::<WIDE>(levels, rounding.bounds, rounding.flip, to, self.target_row);
                row += rows;
            }
        }
    }
}

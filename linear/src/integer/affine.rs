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
    /// What is changed in the bits of a byte without a sign to make a level of it.
    pub flip: u8,
}

impl Bytes {
    /// The distance to the middle between two levels within which a product with the inverse of the scale may round to
    /// another level than the quotient.
    ///
    /// Let `u = 2^-24`. With a quotient `q` and the zero point `z`, the quotient is rounded by `u |q|`, the inverse by as much,
    /// and the product and its sum with `z` by `u (|q| + |q + z|)`. Both `|q|` and `|q + z|` are less than 257 where a middle
    /// decides: less than `4 * 257 u < 6.2e-5` in all.
    const NEAR: f32 = 8e-5;
    /// The largest magnitudes of factors and terms, divided by the scale: a result then fits into 32 bits.
    pub const FACTOR: f32 = 0.5;
    pub const TERM: f32 = 1e6;
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
        let Bytes { scale, inverse, zero, least, most, flip } = self.rounding;
        // SAFETY: as the caller promises.
        unsafe {
            let (mut factors, mut terms) = ([V::splat(0.0); WIDE], [V::splat(0.0); WIDE]);
            for at in 0..WIDE {
                let column = first + at * V::COUNT;
                let [factor, term] = self.operands;
                factors[at] = if factor.1 == 0 { V::splat(*factor.0) } else { V::load(factor.0.add(column)) };
                terms[at] = if term.1 == 0 { V::splat(*term.0) } else { V::load(term.0.add(column)) };
            }
            let bounds = [least + zero, most + zero].map(|byte| byte as u8);
            let (inverse, zero, near) = (V::splat(inverse), V::splat(zero), V::splat(0.5 - Bytes::NEAR));
            let mut row = 0;
            while row < self.rows {
                // The last rows are some that were done before, if they do not fill the vectors.
                row = row.min(self.rows - rows);
                let (mut x, mut levels) = ([V::splat(0.0); 4], [V::splat(0.0); 4]);
                let mut farthest = V::splat(0.0);
                for at in 0..4 {
                    let from = (row + at / WIDE) * self.source_row + first + at % WIDE * V::COUNT;
                    x[at] = V::of_i32(self.source.add(from)).mul(factors[at % WIDE]).add(terms[at % WIDE]);
                    levels[at] = x[at].mul_add(inverse, zero);
                    farthest = levels[at].fraction().greater(farthest);
                }
                if V::any(near.less(farthest)) {
                    for at in 0..4 {
                        let level = x[at].div(V::splat(scale)).max(V::splat(least)).min(V::splat(most));
                        levels[at] = level.round_even().add(zero);
                    }
                }
                let to = self.target.add(row * self.target_row + first);
                V::store_bytes::<WIDE>(levels, bounds, flip, to, self.target_row);
                row += rows;
            }
        }
    }
}

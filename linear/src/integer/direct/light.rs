//! The products of a tile with AVX2: `vpmaddubsw` multiplies bytes by weights of which all pairs are light, and what was
//! split from other pairs is multiplied after all taps; see [`quad`](crate::integer::quad). [Couples](super::coupled)
//! of quads have a way of their own. With AVX-VNNI, `vpdpbusd` multiplies weights of which no pair was split.

use super::{Tile, To};
use crate::integer::affine::Sums;
use crate::integer::quad::{COLUMNS, Rest, has_avx_vnni};
use std::arch::x86_64::*;

/// The windows whose sums are in registers: two vectors for each of them, beside the weights and the products.
const ROWS: usize = 4;

/// A part of a tile: some of its windows, and one of its panels.
struct Part<'a> {
    tile: &'a Tile<'a>,
    panel: usize,
    first: usize,
}

impl Tile<'_> {
    /// Computes the products, each plus the constant of its column.
    ///
    /// # Safety
    /// As for [`Tile::run`], and the processor must have AVX2.
    pub(super) unsafe fn run_light(&self, constants: &[[i32; COLUMNS]; 2], to: To<'_>) {
        let parts = self.windows.div_ceil(ROWS);
        for (panel, constants) in constants.iter().enumerate().take(self.panels) {
            if let Some(couples) = self.couples {
                // SAFETY: as the caller promises.
                unsafe { self.run_coupled(couples, panel, constants, to) };
                continue;
            }
            for at in 0..parts {
                let (first, end) = (self.windows * at / parts, self.windows * (at + 1) / parts);
                let part = Part { tile: self, panel, first };
                // SAFETY: as the caller promises.
                unsafe {
                    match (end - first, has_avx_vnni()) {
                        (1, false) => part.avx2::<1>(constants, to),
                        (2, false) => part.avx2::<2>(constants, to),
                        (3, false) => part.avx2::<3>(constants, to),
                        (_, false) => part.avx2::<4>(constants, to),
                        (1, true) => part.avx_vnni::<1>(constants, to),
                        (2, true) => part.avx_vnni::<2>(constants, to),
                        (3, true) => part.avx_vnni::<3>(constants, to),
                        (_, true) => part.avx_vnni::<4>(constants, to),
                    }
                }
            }
        }
    }
}

impl Part<'_> {
    /// # Safety
    /// As for [`Tile::run_light`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<const R: usize>(&self, constants: &[i32; COLUMNS], to: To<'_>) {
        // SAFETY: as the caller promises.
        unsafe { self.compute::<R, false>(constants, to) }
    }

    /// # Safety
    /// As for [`Tile::run_light`].
    #[target_feature(enable = "avx2,fma,avxvnni")]
    unsafe fn avx_vnni<const R: usize>(&self, constants: &[i32; COLUMNS], to: To<'_>) {
        // SAFETY: as the caller promises.
        unsafe { self.compute::<R, true>(constants, to) }
    }

    /// Computes the products of `R` windows.
    ///
    /// # Safety
    /// As for [`Tile::run_light`].
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn compute<const R: usize, const VNNI: bool>(&self, constants: &[i32; COLUMNS], to: To<'_>) {
        let Tile { taps, quads, channel, .. } = *self.tile;
        // SAFETY: as the caller of `run` promises; the constants of a panel are two vectors, and so is a quad.
        unsafe {
            let ones = _mm256_set1_epi16(1);
            let constants = constants.as_ptr().cast::<__m256i>();
            let mut totals = [[_mm256_loadu_si256(constants), _mm256_loadu_si256(constants.add(1))]; R];
            let mut weights = self.tile.weights[self.panel].cast::<__m256i>();
            for places in taps {
                let mut rows = [std::ptr::null::<u8>(); R];
                for row in 0..R {
                    rows[row] = (*places.as_ptr().add(self.first + row)).wrapping_add(channel);
                }
                for quad in 0..quads {
                    let own = [_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1))];
                    weights = weights.add(2);
                    for row in 0..R {
                        let four = rows[row].add(4 * quad).cast::<i32>().read_unaligned();
                        let four = _mm256_set1_epi32(four);
                        for half in 0..2 {
                            if VNNI {
                                totals[row][half] =
                                    _mm256_dpbusd_avx_epi32(totals[row][half], four, own[half]);
                            } else {
                                let products = _mm256_maddubs_epi16(four, own[half]);
                                let products = _mm256_madd_epi16(products, ones);
                                totals[row][half] = _mm256_add_epi32(totals[row][half], products);
                            }
                        }
                    }
                }
            }
            // One loop after all taps is predicted better than one after each.
            for half in 0..2 {
                for rest in self.tile.rests[self.panel][half] {
                    let (own, quad) = (Self::weights(rest), rest.quad as usize);
                    let (tap, quad) = if taps.len() == 1 { (0, quad) } else { (quad / quads, quad % quads) };
                    let places = taps.as_ptr().add(tap).cast::<*const u8>().add(self.first);
                    for row in 0..R {
                        let from = (*places.add(row)).wrapping_add(channel + 4 * quad);
                        let four = _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
                        // The second elements of pairs, in 16 bits.
                        let seconds = _mm256_srli_epi16::<8>(four);
                        let product = _mm256_madd_epi16(seconds, own);
                        totals[row][half] = _mm256_add_epi32(totals[row][half], product);
                    }
                }
            }
            match to {
                To::Sums(to) => {
                    for row in 0..R {
                        let to = to.add(self.first + row).cast::<__m256i>().add(2 * self.panel);
                        _mm256_storeu_si256(to, totals[row][0]);
                        _mm256_storeu_si256(to.add(1), totals[row][1]);
                    }
                }
                To::Bytes(sums, count) => self.bytes(sums, count, &totals),
            }
        }
    }

    #[inline(always)]
    unsafe fn weights(rest: &Rest) -> __m256i {
        // SAFETY: the weights of a rest are a vector.
        unsafe { _mm256_loadu_si256(rest.weights.as_ptr().cast()) }
    }

    /// Returns an operand of the chain for the columns of the panel.
    ///
    /// # Safety
    /// It must have as many elements as there are columns, or one.
    #[inline(always)]
    unsafe fn operand(&self, (from, step): (*const f32, usize), columns: usize) -> [__m256; 2] {
        // SAFETY: as the caller promises.
        unsafe {
            if step == 0 {
                return [_mm256_set1_ps(*from); 2];
            }
            let mut from = from.wrapping_add(self.panel * COLUMNS);
            let mut some = [0.0; COLUMNS];
            if columns < COLUMNS {
                std::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), columns);
                from = some.as_ptr();
            }
            [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]
        }
    }

    /// Writes the bytes of sums.
    ///
    /// # Safety
    /// As for [`Tile::run`].
    #[inline(always)]
    unsafe fn bytes<const R: usize>(&self, sums: &Sums, count: usize, totals: &[[__m256i; 2]; R]) {
        let columns = (count - self.panel * COLUMNS).min(COLUMNS);
        // SAFETY: as the caller promises.
        unsafe {
            let [factors, terms] =
                [self.operand(sums.operands[0], columns), self.operand(sums.operands[1], columns)];
            // Copies, which no result that is written can change.
            let (rounding, apart) = (sums.rounding, sums.target_row);
            let target = sums.target.wrapping_add(self.first * apart + self.panel * COLUMNS);
            // Steps that the compiler knows, so that the totals never leave the registers.
            macro_rules! rows {
                ($($row:literal)*) => {$(
                    if $row < R {
                        let mut x = [_mm256_setzero_ps(); 4];
                        for at in 0..4 {
                            // The last row stands in for one that there is not.
                            let sum = totals[($row + at / 2).min(R - 1)][at % 2];
                            let product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factors[at % 2]);
                            x[at] = _mm256_add_ps(product, terms[at % 2]);
                        }
                        let bytes = rounding.bytes_of_eights(x);
                        let to = target.wrapping_add($row * apart);
                        Self::store(_mm256_castsi256_si128(bytes), to, columns);
                        if $row + 1 < R {
                            let to = target.wrapping_add(($row + 1) * apart);
                            Self::store(_mm256_extracti128_si256::<1>(bytes), to, columns);
                        }
                    }
                )*};
            }
            rows!(0 2);
        }
    }

    /// Writes the first bytes of a vector.
    ///
    /// # Safety
    /// There must be room for them.
    #[inline(always)]
    unsafe fn store(bytes: __m128i, to: *mut u8, columns: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            if columns == COLUMNS {
                return _mm_storeu_si128(to.cast(), bytes);
            }
            let mut all = [0_u8; COLUMNS];
            _mm_storeu_si128(all.as_mut_ptr().cast(), bytes);
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, columns);
        }
    }
}

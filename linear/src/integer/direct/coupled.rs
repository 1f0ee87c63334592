//! The products of a tile with AVX2 and [couples](crate::integer::couples) of quads.

use super::{Couples, Places, Tile, To};
use crate::integer::affine::Sums;
use crate::integer::couples::{HEADER, KINDS, OUTPUTS as HALF_COLUMNS, SUMS};
use crate::integer::quad::COLUMNS;
use std::arch::x86_64::*;

/// A half of one of the panels of a tile.
struct Half<'a> {
    taps: &'a [Places],
    /// The first channel of a tap.
    channel: usize,
    /// The first column, counted from that of the tile.
    column: usize,
    records: *const u8,
}

impl Tile<'_> {
    /// Computes the products with one of the panels, each plus the constant of its column.
    ///
    /// # Safety
    /// As for [`Tile::run`]; the processor must have AVX2, and the weights must be couples of these sizes.
    pub(super) unsafe fn run_coupled(
        &self,
        couples: Couples,
        panel: usize,
        constants: &[i32; COLUMNS],
        to: To<'_>,
    ) {
        for (half, constants) in constants.as_chunks::<HALF_COLUMNS>().0.iter().enumerate() {
            let column = panel * COLUMNS + half * HALF_COLUMNS;
            if column >= couples.outputs {
                break;
            }
            let records = self.weights[panel].cast::<u8>().wrapping_add(half * couples.bytes + SUMS);
            let taps = if couples.readable[column / HALF_COLUMNS] { self.taps } else { &[] };
            let half = Half { taps, channel: self.channel, column, records };
            // SAFETY: as the caller promises.
            unsafe {
                match self.windows {
                    1 => half.compute::<1>(constants, to),
                    2 => half.compute::<2>(constants, to),
                    3 => half.compute::<3>(constants, to),
                    4 => half.compute::<4>(constants, to),
                    5 => half.compute::<5>(constants, to),
                    6 => half.compute::<6>(constants, to),
                    7 => half.compute::<7>(constants, to),
                    _ => half.compute::<8>(constants, to),
                }
            }
        }
    }
}

/// Adds the products of the records of a kind to the totals, and returns the end of the records.
///
/// # Safety
/// All records and the bytes of the rows must be in bounds, and the processor must have AVX2.
// Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
#[allow(clippy::needless_range_loop)]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn add<const R: usize, const KIND: usize>(
    mut records: *const u8,
    count: u16,
    rows: &[*const u8; R],
    totals: &mut [__m256i; R],
) -> *const u8 {
    let (quads, masks) = const { (KINDS[KIND].quads, KINDS[KIND].masks) };
    let zero = _mm256_setzero_si256();
    let ones = _mm256_set1_epi16(1);
    // SAFETY: as the caller promises.
    unsafe {
        for _ in 0..count {
            let mut next = records.cast::<__m256i>();
            let (mut own, mut mask) = ([zero; 2], [zero; 2]);
            for at in 0..quads {
                if at < masks {
                    mask[at] = _mm256_loadu_si256(next);
                    next = next.add(1);
                }
                own[at] = _mm256_loadu_si256(next);
                next = next.add(1);
            }
            let mut places = [0; 2];
            for at in 0..quads {
                places[at] = next.cast::<u32>().add(at).read_unaligned() as usize;
            }
            for row in 0..R {
                let mut products = [zero; 2];
                for at in 0..quads {
                    let four = rows[row].add(places[at]).cast::<i32>().read_unaligned();
                    let mut four = _mm256_set1_epi32(four);
                    if at < masks {
                        four = _mm256_xor_si256(four, mask[at]);
                    }
                    products[at] = _mm256_maddubs_epi16(four, own[at]);
                }
                let sum = if quads == 2 { _mm256_add_epi16(products[0], products[1]) } else { products[0] };
                totals[row] = _mm256_add_epi32(totals[row], _mm256_madd_epi16(sum, ones));
            }
            records = records.add(const { KINDS[KIND].bytes() });
        }
    }
    records
}

impl Half<'_> {
    /// Computes the products of `R` windows.
    ///
    /// # Safety
    /// As for [`Tile::run_coupled`].
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn compute<const R: usize>(&self, constants: &[i32; HALF_COLUMNS], to: To<'_>) {
        // SAFETY: as the caller promises; the constants of half a panel are a vector.
        unsafe {
            let mut totals = [_mm256_loadu_si256(constants.as_ptr().cast::<__m256i>()); R];
            let mut records = self.records;
            for places in self.taps {
                let mut rows = [std::ptr::null::<u8>(); R];
                for row in 0..R {
                    rows[row] = places[row].wrapping_add(self.channel);
                }
                let counts = records.cast::<[u16; HEADER / size_of::<u16>()]>().read_unaligned();
                records = records.add(HEADER);
                records = add::<R, 0>(records, counts[0], &rows, &mut totals);
                records = add::<R, 1>(records, counts[1], &rows, &mut totals);
                records = add::<R, 2>(records, counts[2], &rows, &mut totals);
                records = add::<R, 3>(records, counts[3], &rows, &mut totals);
                records = add::<R, 4>(records, counts[4], &rows, &mut totals);
            }
            match to {
                To::Sums(to) => {
                    for row in 0..R {
                        let to = to.add(row).cast::<i32>().add(self.column);
                        _mm256_storeu_si256(to.cast::<__m256i>(), totals[row]);
                    }
                }
                To::Bytes(sums, _) => self.bytes(sums, &totals),
            }
        }
    }

    /// Returns an operand of the chain for the columns.
    ///
    /// # Safety
    /// It must have as many elements as there are columns, or one.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn operand(&self, (from, step): (*const f32, usize)) -> __m256 {
        // SAFETY: as the caller promises.
        unsafe {
            match step {
                0 => _mm256_set1_ps(*from),
                _ => _mm256_loadu_ps(from.add(self.column)),
            }
        }
    }

    /// Writes the bytes of sums.
    ///
    /// # Safety
    /// As for [`Tile::run`].
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn bytes<const R: usize>(&self, sums: &Sums, totals: &[__m256i; R]) {
        // SAFETY: as the caller promises.
        unsafe {
            let [factor, term] = [self.operand(sums.operands[0]), self.operand(sums.operands[1])];
            // Copies, which no result that is written can change.
            let (rounding, apart) = (sums.rounding, sums.target_row);
            let target = sums.target.wrapping_add(self.column);
            for first in (0..R).step_by(4) {
                let mut x = [_mm256_setzero_ps(); 4];
                for at in 0..4 {
                    // The last row stands in for rows that there are not.
                    let sum = totals[(first + at).min(R - 1)];
                    x[at] = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor), term);
                }
                let bytes = rounding.bytes_of_eights(x);
                let rows = [
                    _mm256_extract_epi64::<0>(bytes),
                    _mm256_extract_epi64::<1>(bytes),
                    _mm256_extract_epi64::<2>(bytes),
                    _mm256_extract_epi64::<3>(bytes),
                ];
                for at in 0..4 {
                    if first + at < R {
                        let to = target.wrapping_add((first + at) * apart);
                        to.cast::<[u8; HALF_COLUMNS]>().write(rows[at].to_le_bytes());
                    }
                }
            }
        }
    }
}

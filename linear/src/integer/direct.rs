//! Products of up to eight windows with one or two panels, whose sums can become bytes while they are in registers.
//!
//! Windows are read where they lie, one tap after another: a list has the place of each tap for each window, and so no
//! window is copied, at any stride and with any padding. There are two ways: by vectors of AVX-512 VNNI, and by those of AVX2,
//! or of AVX-VNNI.

#[cfg(target_arch = "x86_64")]
mod coupled;
#[cfg(target_arch = "x86_64")]
mod light;

use super::affine::Sums;
use super::couples::OUTPUTS;
use super::pair::{PAIR_COLUMNS, PAIR_ROWS, PairSums};
#[cfg(target_arch = "x86_64")]
use super::quad::QUAD;
use super::quad::{COLUMNS, Rest, has_vnni};
use crate::lanes::Isa;
#[cfg(target_arch = "x86_64")]
use crate::lanes::prefetch;

/// The distance in bytes at which weights are prefetched when they are read for the first time.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 2048;

/// Where a tap lies in each window of a tile.
pub(super) type Places = [*const u8; PAIR_ROWS];

/// Some windows, and the panels that they are multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// The taps, in the order of the weights.
    pub taps: &'a [Places],
    /// The number of windows, from 1 to [`PAIR_ROWS`].
    pub windows: usize,
    /// The quads of a tap.
    pub quads: usize,
    /// The weights of both panels, as [`prepare`](super::quad::prepare) wrote them.
    pub weights: [*const i8; 2],
    /// What was split from pairs of each panel, for both halves of quads. With `vpdpbusd` no pair is split.
    pub rests: [[&'a [Rest]; 2]; 2],
    /// If the weights are [`couples`](super::couples), their sizes. They are then as they were given.
    pub couples: Option<Couples>,
    /// The number of panels.
    pub panels: usize,
    /// The first channel of a tap.
    pub channel: usize,
    /// What is added to the sums of each column. If it is unknown, it is minus this zero point times the sum of the
    /// column's weights.
    pub unknown: Option<i32>,
}

/// The sizes of weights that are [`couples`](super::couples).
#[derive(Clone, Copy)]
pub(super) struct Couples {
    /// The bytes of eight outputs.
    pub bytes: usize,
    /// The outputs of the tile, a multiple of eight.
    pub outputs: usize,
    /// Whether the weights of each eight outputs are couples; others count as zeros.
    pub readable: [bool; PAIR_COLUMNS / OUTPUTS],
}

/// Where the results of a tile go.
#[derive(Clone, Copy)]
pub(super) enum To<'a> {
    /// The sums.
    Sums(*mut PairSums),
    /// The bytes of this many columns, whose sums are not read from memory.
    Bytes(&'a Sums, usize),
}

impl Tile<'_> {
    /// Whether the processor has the instructions for one of the ways.
    pub(super) fn is_supported() -> bool {
        Self::has_vnni() || cfg!(target_arch = "x86_64") && Isa::running() >= Isa::Avx2 && !has_vnni()
    }

    /// Whether the processor has `vpdpbusd`, and what is needed around it.
    pub(super) fn has_vnni() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            has_vnni() && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
        }
        #[cfg(not(target_arch = "x86_64"))]
        has_vnni()
    }

    /// Computes the products, each plus the constant of its column. Writes the constants if they are unknown.
    ///
    /// # Safety
    /// All elements must be in bounds, there must be room for the results, and tiles must be
    /// [supported](Tile::is_supported).
    pub(super) unsafe fn run(&self, constants: &mut [[i32; COLUMNS]; 2], to: To<'_>) {
        debug_assert!((1..=PAIR_ROWS).contains(&self.windows) && (1..=2).contains(&self.panels));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises.
        unsafe {
            if !Self::has_vnni() {
                return self.run_light(constants, to);
            }
            macro_rules! windows {
                ($panels:literal, $unknown:literal) => {
                    match self.windows {
                        1 => self.vnni::<1, $panels, $unknown>(constants, to),
                        2 => self.vnni::<2, $panels, $unknown>(constants, to),
                        3 => self.vnni::<3, $panels, $unknown>(constants, to),
                        4 => self.vnni::<4, $panels, $unknown>(constants, to),
                        5 => self.vnni::<5, $panels, $unknown>(constants, to),
                        6 => self.vnni::<6, $panels, $unknown>(constants, to),
                        7 => self.vnni::<7, $panels, $unknown>(constants, to),
                        _ => self.vnni::<8, $panels, $unknown>(constants, to),
                    }
                };
            }
            match (self.panels, self.unknown) {
                (1, None) => windows!(1, false),
                (1, Some(_)) => windows!(1, true),
                (_, None) => windows!(2, false),
                (_, Some(_)) => windows!(2, true),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (constants, to, self.taps, self.quads, self.weights, self.rests, self.couples, self.unknown);
    }

    /// Returns an operand of the chain for the columns of both panels.
    ///
    /// # Safety
    /// It must have as many elements as there are columns, or one.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma")]
    unsafe fn operand<const C: usize>(
        sums: &Sums,
        operand: usize,
        count: usize,
    ) -> [std::arch::x86_64::__m512; C] {
        use std::arch::x86_64::*;
        let (from, step) = sums.operands[operand];
        let mut values = [_mm512_setzero_ps(); C];
        for (at, value) in values.iter_mut().enumerate() {
            let lanes = count.saturating_sub(at * COLUMNS).min(COLUMNS);
            let mask = ((1_u32 << lanes) - 1) as __mmask16;
            // SAFETY: as the caller promises; elements beyond the last one are not read.
            *value = unsafe {
                match step {
                    0 => _mm512_set1_ps(*from),
                    _ => _mm512_maskz_loadu_ps(mask, from.wrapping_add(at * COLUMNS)),
                }
            };
        }
        values
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma")]
    unsafe fn vnni<const R: usize, const C: usize, const UNKNOWN: bool>(
        &self,
        constants: &mut [[i32; COLUMNS]; 2],
        to: To<'_>,
    ) {
        use std::arch::x86_64::*;
        // SAFETY: as the caller of `run` promises; the constants of a panel are a vector, and so is a quad.
        unsafe {
            let mut totals = [[_mm512_setzero_si512(); C]; R];
            let (ones, mut columns) = (_mm512_set1_epi32(0x0101_0101), [_mm512_setzero_si512(); C]);
            if !UNKNOWN {
                for at in 0..C {
                    let first = _mm512_loadu_si512(constants[at].as_ptr().cast::<__m512i>());
                    for row in 0..R {
                        totals[row][at] = first;
                    }
                }
            }
            let mut first = self.weights[0].cast::<__m512i>();
            let beside = self.weights[C - 1].byte_offset_from(self.weights[0]);
            for places in self.taps {
                let rows: [*const u8; R] = std::array::from_fn(|row| places[row].wrapping_add(self.channel));
                for quad in 0..self.quads {
                    let mut weights = [_mm512_loadu_si512(first); C];
                    if C > 1 {
                        weights[1] = _mm512_loadu_si512(first.byte_offset(beside));
                    }
                    if UNKNOWN {
                        prefetch(first.wrapping_byte_add(AHEAD));
                        prefetch(first.wrapping_byte_offset(beside).wrapping_byte_add(AHEAD));
                        for at in 0..C {
                            columns[at] = _mm512_dpbusd_epi32(columns[at], ones, weights[at]);
                        }
                    }
                    first = first.byte_add(QUAD);
                    for row in 0..R {
                        let four = rows[row].add(4 * quad).cast::<i32>().read_unaligned();
                        let four = _mm512_set1_epi32(four);
                        for at in 0..C {
                            totals[row][at] = _mm512_dpbusd_epi32(totals[row][at], four, weights[at]);
                        }
                    }
                }
            }
            if UNKNOWN {
                let factor = _mm512_set1_epi32(self.unknown.unwrap_or(0).wrapping_neg());
                for at in 0..C {
                    let constant = _mm512_mullo_epi32(columns[at], factor);
                    _mm512_storeu_si512(constants[at].as_mut_ptr().cast::<__m512i>(), constant);
                    for row in 0..R {
                        totals[row][at] = _mm512_add_epi32(totals[row][at], constant);
                    }
                }
            }
            let (sums, count) = match to {
                To::Bytes(sums, count) => (sums, count),
                To::Sums(to) => {
                    for row in 0..R {
                        let to = to.add(row).cast::<__m512i>();
                        for at in 0..C {
                            _mm512_storeu_si512(to.add(at), totals[row][at]);
                        }
                    }
                    return;
                }
            };
            let [factors, terms] = [Self::operand::<C>(sums, 0, count), Self::operand::<C>(sums, 1, count)];
            // Copies, which no result that is written can change.
            let (rounding, target, apart) = (sums.rounding, sums.target, sums.target_row);
            // Four vectors are two rows of two panels, or four rows of one.
            let of_row = ((1_u64 << count) - 1) as __mmask32;
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            // Steps that the compiler knows, so that the totals never leave the registers.
            macro_rules! rows {
                ($($row:literal)*) => {$(
                    if $row < R && $row % (4 / C) == 0 {
                        let mut x = [_mm512_setzero_ps(); 4];
                        for at in 0..4 {
                            // The last row stands in for rows that there are not.
                            let sum = totals[($row + at / C).min(R - 1)][at % C];
                            let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), factors[at % C]);
                            x[at] = _mm512_add_ps(product, terms[at % C]);
                        }
                        let bytes = _mm512_permutexvar_epi32(order, rounding.bytes(x));
                        let to = |at: usize| {
                            let row = ($row + at).min(R - 1);
                            target.wrapping_add(row * apart).cast::<i8>()
                        };
                        if C == 2 {
                            let high = _mm512_extracti64x4_epi64::<1>(bytes);
                            _mm256_mask_storeu_epi8(to(0), of_row, _mm512_castsi512_si256(bytes));
                            _mm256_mask_storeu_epi8(to(1), of_row, high);
                        } else {
                            let mask = of_row as __mmask16;
                            _mm_mask_storeu_epi8(to(0), mask, _mm512_castsi512_si128(bytes));
                            _mm_mask_storeu_epi8(to(1), mask, _mm512_extracti32x4_epi32::<1>(bytes));
                            _mm_mask_storeu_epi8(to(2), mask, _mm512_extracti32x4_epi32::<2>(bytes));
                            _mm_mask_storeu_epi8(to(3), mask, _mm512_extracti32x4_epi32::<3>(bytes));
                        }
                    }
                )*};
            }
            rows!(0 1 2 3 4 5 6 7);
        }
    }
}

//! Levels and narrow floats as vectors of `f32`.

use super::super::Isa;
use super::{Factors, Narrow, PANEL, Panel};
use crate::lanes::Lanes;
use ovolo::tensor::{DType, TensorType};

/// How an element is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    I8,
    U8,
    F16,
    BF16,
    /// Two in a byte.
    Halves,
}

/// The rows of levels of 4 bits whose bytes lie beside each other.
pub(super) const JOINED: usize = 8;

impl Stored {
    /// Returns the form of a matrix in panels, if there is a kernel for it.
    pub fn new(w: &TensorType, per_byte: usize) -> Option<Self> {
        let (blocks, order) = (w.layout.blocks(), w.layout.order(2));
        if order[..] != [1, 0] {
            return None;
        }
        match (w.dtype, per_byte) {
            (DType::U8, 2) if blocks == [(1, PANEL), (0, JOINED / 2)] => Some(Self::Halves),
            (_, 1) if blocks != [(1, PANEL)] => None,
            (DType::I8, 1) => Some(Self::I8),
            (DType::U8, 1) => Some(Self::U8),
            (DType::F16, 1) => Some(Self::F16),
            (DType::BF16, 1) => Some(Self::BF16),
            _ => None,
        }
    }

    /// Returns the rows that are read together.
    pub const fn step(self) -> usize {
        match self {
            Self::Halves => JOINED,
            _ => 1,
        }
    }

    /// Returns the bytes of a panel of so many rows.
    pub const fn panel_bytes(self, rows: usize) -> usize {
        match self {
            Self::I8 | Self::U8 => rows * PANEL,
            Self::F16 | Self::BF16 => 2 * rows * PANEL,
            Self::Halves => rows.div_ceil(JOINED) * JOINED / 2 * PANEL,
        }
    }
}

/// Makes vectors of `f32` from what is stored.
///
/// # Safety
/// As for [`Lanes`]; the bytes must be readable.
pub(super) trait Widen: Lanes {
    /// Words of 32 bits, one for each lane.
    type Words: Copy;
    unsafe fn of_i8(from: *const u8) -> Self;
    unsafe fn of_u8(from: *const u8) -> Self;
    unsafe fn of_f16(from: *const u8) -> Self;
    unsafe fn of_bf16(from: *const u8) -> Self;
    unsafe fn words(from: *const u8) -> Self::Words;
    /// Returns four bits of each word, the lowest first, as a number from 0 to 15.
    unsafe fn level<const AT: u32>(words: Self::Words) -> Self;
}

/// A kind of stored elements, as a type.
pub(super) trait Kind {
    /// The bytes of a row of a panel, or of [`JOINED`] rows.
    const ROW: usize;
    /// The rows that are read together.
    const STEP: usize;
    /// Returns vector `c` of the row `AT` after those at `from`.
    ///
    /// # Safety
    /// As for [`Widen`].
    unsafe fn vector<V: Widen, const AT: u32>(from: *const u8, c: usize) -> V;
}

macro_rules! kinds {
    ($($name:ident: $bytes:literal bytes, $of:ident;)*) => {
        $(
            pub(super) struct $name;

            impl Kind for $name {
                const ROW: usize = $bytes * PANEL;
                const STEP: usize = 1;

                #[inline(always)]
                unsafe fn vector<V: Widen, const AT: u32>(from: *const u8, c: usize) -> V {
                    // SAFETY: the caller's promise.
                    unsafe { V::$of(from.add(AT as usize * Self::ROW + c * V::COUNT * $bytes)) }
                }
            }
        )*
    };
}

kinds! {
    I8: 1 bytes, of_i8;
    U8: 1 bytes, of_u8;
    F16: 2 bytes, of_f16;
    Bf16: 2 bytes, of_bf16;
}

pub(super) struct Halves;

impl Kind for Halves {
    const ROW: usize = JOINED / 2 * PANEL;
    const STEP: usize = JOINED;

    #[inline(always)]
    unsafe fn vector<V: Widen, const AT: u32>(from: *const u8, c: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::level::<AT>(V::words(from.add(c * V::COUNT * size_of::<u32>()))) }
    }
}

/// Some rows of a panel, and where their floats belong.
pub(super) struct Part<'a> {
    pub panel: Panel,
    pub narrow: &'a Narrow,
    pub first: usize,
    pub rows: usize,
    pub to: *mut f32,
}

type Filled = unsafe fn(&Part<'_>);

/// The function that makes floats of a panel's rows.
pub(super) struct Fill {
    pub function: Filled,
}

impl Fill {
    pub fn of(stored: Stored) -> Self {
        let function = match Isa::planned() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::of512(stored),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if stored != Stored::F16 || is_x86_feature_detected!("f16c") => x86::of256(stored),
            _ => portable(stored),
        };
        Self { function }
    }
}

/// Makes `(w - z) s` of the rows, each rounded as `dequantize` rounds it. `C` vectors are a row.
///
/// # Safety
/// The rows must be within the panel, and the floats writable; the processor must have the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn fill<V: Widen, K: Kind, const C: usize>(part: &Part<'_>) {
    let Part { panel, narrow, first, rows, to } = *part;
    let end = first + rows;
    let mut row = first;
    // SAFETY: the caller's promise.
    unsafe {
        while row < end {
            let block = row / narrow.block;
            let stop = ((block + 1) * narrow.block).min(end);
            let load = |from: *const f32, factors: Factors, c: usize| match factors {
                Factors::One => V::splat(*from),
                Factors::Panels => V::load(from.add(block * PANEL + c * V::COUNT)),
            };
            let scales: [V; C] = std::array::from_fn(|c| load(panel.scales, narrow.scales, c));
            let points: [V; C] = std::array::from_fn(|c| load(panel.points, narrow.points, c));
            while row < stop {
                let from = panel.levels.add(row / K::STEP * K::ROW);
                for c in 0..C {
                    let store = |at: usize, level: V| {
                        if row + at < stop {
                            let value = level.sub(points[c]).mul(scales[c]);
                            value.store(to.add((row + at - first) * PANEL + c * V::COUNT));
                        }
                    };
                    store(0, K::vector::<V, 0>(from, c));
                    if K::STEP == JOINED {
                        store(1, K::vector::<V, 1>(from, c));
                        store(2, K::vector::<V, 2>(from, c));
                        store(3, K::vector::<V, 3>(from, c));
                        store(4, K::vector::<V, 4>(from, c));
                        store(5, K::vector::<V, 5>(from, c));
                        store(6, K::vector::<V, 6>(from, c));
                        store(7, K::vector::<V, 7>(from, c));
                    }
                }
                row += K::STEP;
            }
        }
    }
}

/// # Safety
/// As for [`fill`].
unsafe fn fill_portable<K: Kind>(part: &Part<'_>) {
    // SAFETY: the caller's promise.
    unsafe { fill::<[f32; 8], K, 4>(part) }
}

fn portable(stored: Stored) -> Filled {
    match stored {
        Stored::I8 => fill_portable::<I8>,
        Stored::U8 => fill_portable::<U8>,
        Stored::F16 => fill_portable::<F16>,
        Stored::BF16 => fill_portable::<Bf16>,
        Stored::Halves => fill_portable::<Halves>,
    }
}

/// Returns the number that the bits of a binary16 stand for.
fn half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    // The exponent's bias is 15 in place of 127; an exponent of ones stays one.
    let wide = if rest >= 0x0f80_0000 {
        f32::from_bits(rest | 0x7f80_0000)
    } else {
        f32::from_bits(rest) * f32::from_bits((127 + 112) << 23)
    };
    f32::from_bits(wide.to_bits() | sign)
}

impl Widen for [f32; 8] {
    type Words = [u32; 8];

    unsafe fn of_i8(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i8; 8]>().read_unaligned() }.map(f32::from)
    }
    unsafe fn of_u8(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u8; 8]>().read_unaligned() }.map(f32::from)
    }
    unsafe fn of_f16(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u16; 8]>().read_unaligned() }.map(half)
    }
    unsafe fn of_bf16(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u16; 8]>().read_unaligned() }.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
    unsafe fn words(from: *const u8) -> Self::Words {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[[u8; 4]; 8]>().read_unaligned() }.map(u32::from_le_bytes)
    }
    #[allow(clippy::cast_precision_loss)]
    unsafe fn level<const AT: u32>(words: Self::Words) -> Self {
        words.map(|word| (word >> (4 * AT) & 15) as f32)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bf16, F16, Filled, Halves, I8, Kind, Part, Stored, U8, Widen, fill};
    use std::arch::x86_64::*;

    impl Widen for __m512 {
        type Words = __m512i;

        #[inline(always)]
        unsafe fn of_i8(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn of_u8(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn of_f16(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        }
        #[inline(always)]
        unsafe fn of_bf16(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
            }
        }
        #[inline(always)]
        unsafe fn words(from: *const u8) -> Self::Words {
            // SAFETY: the caller's promise.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }
        #[inline(always)]
        unsafe fn level<const AT: u32>(words: Self::Words) -> Self {
            // SAFETY: the caller's promise. A permutation takes the low four bits of each index.
            unsafe {
                let levels = _mm512_setr_ps(
                    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
                );
                let index = match AT {
                    0 => words,
                    1 => _mm512_srli_epi32::<4>(words),
                    2 => _mm512_srli_epi32::<8>(words),
                    3 => _mm512_srli_epi32::<12>(words),
                    4 => _mm512_srli_epi32::<16>(words),
                    5 => _mm512_srli_epi32::<20>(words),
                    6 => _mm512_srli_epi32::<24>(words),
                    _ => _mm512_srli_epi32::<28>(words),
                };
                _mm512_permutexvar_ps(index, levels)
            }
        }
    }

    impl Widen for __m256 {
        type Words = __m256i;

        #[inline(always)]
        unsafe fn of_i8(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn of_u8(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn of_f16(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        }
        #[inline(always)]
        unsafe fn of_bf16(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
            }
        }
        #[inline(always)]
        unsafe fn words(from: *const u8) -> Self::Words {
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }
        #[inline(always)]
        unsafe fn level<const AT: u32>(words: Self::Words) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                let low = match AT {
                    0 => words,
                    1 => _mm256_srli_epi32::<4>(words),
                    2 => _mm256_srli_epi32::<8>(words),
                    3 => _mm256_srli_epi32::<12>(words),
                    4 => _mm256_srli_epi32::<16>(words),
                    5 => _mm256_srli_epi32::<20>(words),
                    6 => _mm256_srli_epi32::<24>(words),
                    _ => _mm256_srli_epi32::<28>(words),
                };
                _mm256_cvtepi32_ps(if AT == 7 { low } else { _mm256_and_si256(low, _mm256_set1_epi32(15)) })
            }
        }
    }

    /// # Safety
    /// As for [`fill`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,fma")]
    unsafe fn fill512<K: Kind>(part: &Part<'_>) {
        // SAFETY: the caller's promise.
        unsafe { fill::<__m512, K, 2>(part) }
    }

    /// # Safety
    /// As for [`fill`]; the processor must have AVX2, FMA and F16C.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill256<K: Kind>(part: &Part<'_>) {
        // SAFETY: the caller's promise.
        unsafe { fill::<__m256, K, 4>(part) }
    }

    pub(super) fn of512(stored: Stored) -> Filled {
        match stored {
            Stored::I8 => fill512::<I8>,
            Stored::U8 => fill512::<U8>,
            Stored::F16 => fill512::<F16>,
            Stored::BF16 => fill512::<Bf16>,
            Stored::Halves => fill512::<Halves>,
        }
    }

    pub(super) fn of256(stored: Stored) -> Filled {
        match stored {
            Stored::I8 => fill256::<I8>,
            Stored::U8 => fill256::<U8>,
            Stored::F16 => fill256::<F16>,
            Stored::BF16 => fill256::<Bf16>,
            Stored::Halves => fill256::<Halves>,
        }
    }
}

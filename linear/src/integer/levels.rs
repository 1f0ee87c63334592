//! Vectors of floats that are read from integers, and written as levels of 8 bits.

use crate::lanes::Lanes;

/// Vectors that integers become.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)]
pub(super) trait Levels: Lanes {
    unsafe fn of_i32(from: *const i32) -> Self;
    unsafe fn of_u8(from: *const u8) -> Self;
    unsafe fn of_i8(from: *const i8) -> Self;
    /// Rounds each number to the nearest whole one, and to the even one of two, adds `zero`, and writes the lower 8 bits. The
    /// rounded numbers must be between -255 and 255.
    unsafe fn store_levels(self, zero: i32, to: *mut u8);
    /// Returns the numbers minus the nearest whole ones.
    #[inline(always)]
    unsafe fn fraction(self) -> Self {
        // SAFETY: the processor has the instruction set, as the caller promises.
        unsafe { self.sub(self.round_even()) }
    }
    /// Returns the greater magnitudes.
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { self.abs().max(other.abs()) }
    }
    /// Returns whether the mask has a lane.
    unsafe fn any(mask: Self::Mask) -> bool;
}

impl Levels for [f32; 8] {
    #[inline(always)]
    unsafe fn of_i32(from: *const i32) -> Self {
        // SAFETY: in bounds, as the trait requires.
        std::array::from_fn(|lane| unsafe { from.add(lane).read_unaligned() as f32 })
    }
    #[inline(always)]
    unsafe fn of_u8(from: *const u8) -> Self {
        // SAFETY: as above.
        std::array::from_fn(|lane| f32::from(unsafe { *from.add(lane) }))
    }
    #[inline(always)]
    unsafe fn of_i8(from: *const i8) -> Self {
        // SAFETY: as above.
        std::array::from_fn(|lane| f32::from(unsafe { *from.add(lane) }))
    }
    #[inline(always)]
    unsafe fn store_levels(self, zero: i32, to: *mut u8) {
        for (lane, value) in self.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { *to.add(lane) = (value.round_ties_even() as i32 + zero) as u8 };
        }
    }
    #[inline(always)]
    unsafe fn any(mask: Self::Mask) -> bool {
        mask.contains(&true)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Levels;
    use std::arch::x86_64::*;

    impl Levels for __m512 {
        #[inline(always)]
        unsafe fn of_i32(from: *const i32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(from.cast::<__m512i>())) }
        }
        #[inline(always)]
        unsafe fn of_u8(from: *const u8) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast::<__m128i>()))) }
        }
        #[inline(always)]
        unsafe fn of_i8(from: *const i8) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast::<__m128i>()))) }
        }
        #[inline(always)]
        unsafe fn store_levels(self, zero: i32, to: *mut u8) {
            // SAFETY: as the trait demands.
            unsafe {
                let levels = _mm512_add_epi32(_mm512_cvtps_epi32(self), _mm512_set1_epi32(zero));
                _mm_storeu_si128(to.cast::<__m128i>(), _mm512_cvtepi32_epi8(levels));
            }
        }
        #[inline(always)]
        unsafe fn fraction(self) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_reduce_ps::<_MM_FROUND_NO_EXC>(self) }
        }
        #[inline(always)]
        unsafe fn greater(self, other: Self) -> Self {
            /// The greater of the magnitudes, with the sign cleared.
            const MAGNITUDE: i32 = 0b1011;
            // SAFETY: as the trait demands.
            unsafe { _mm512_range_ps::<MAGNITUDE>(self, other) }
        }
        #[inline(always)]
        unsafe fn any(mask: Self::Mask) -> bool {
            mask != 0
        }
    }

    impl Levels for __m256 {
        #[inline(always)]
        unsafe fn of_i32(from: *const i32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_cvtepi32_ps(_mm256_loadu_si256(from.cast::<__m256i>())) }
        }
        #[inline(always)]
        unsafe fn of_u8(from: *const u8) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast::<__m128i>()))) }
        }
        #[inline(always)]
        unsafe fn of_i8(from: *const i8) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast::<__m128i>()))) }
        }
        #[inline(always)]
        unsafe fn store_levels(self, zero: i32, to: *mut u8) {
            // SAFETY: as the trait demands.
            unsafe {
                let levels = _mm256_add_epi32(_mm256_cvtps_epi32(self), _mm256_set1_epi32(zero));
                // The lowest byte of each number, in both halves; then the halves beside each other.
                let lowest = _mm256_set_epi64x(-1, -1 << 32 | 0x0c08_0400, -1, -1 << 32 | 0x0c08_0400);
                let bytes = _mm256_shuffle_epi8(levels, lowest);
                let halves =
                    _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
                _mm_storel_epi64(to.cast::<__m128i>(), halves);
            }
        }
        #[inline(always)]
        unsafe fn any(mask: Self::Mask) -> bool {
            // SAFETY: as the trait demands.
            unsafe { _mm256_movemask_ps(mask) != 0 }
        }
    }
}

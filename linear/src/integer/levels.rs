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
    /// Rounds the numbers of four vectors to the nearest whole ones, bounds them by two bytes, changes the bits `flip` of
    /// each byte, and writes them. `WIDE` vectors are a row, and the distance between rows is `apart`. The numbers must fit
    /// into 32 bits, or be NaN, which becomes the least byte.
    unsafe fn store_bytes<const WIDE: usize>(
        four: [Self; 4],
        bounds: [u8; 2],
        flip: u8,
        to: *mut u8,
        apart: usize,
    );
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
    unsafe fn store_bytes<const WIDE: usize>(
        four: [Self; 4],
        [least, most]: [u8; 2],
        flip: u8,
        to: *mut u8,
        apart: usize,
    ) {
        for (at, numbers) in four.into_iter().enumerate() {
            for (lane, number) in numbers.into_iter().enumerate() {
                let level = number.round_ties_even().max(f32::from(least)).min(f32::from(most)) as u8;
                // SAFETY: as above.
                unsafe { *to.add(at / WIDE * apart + at % WIDE * Self::COUNT + lane) = level ^ flip };
            }
        }
    }
    #[inline(always)]
    unsafe fn any(mask: Self::Mask) -> bool {
        mask.contains(&true)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{bytes, bytes_of_eights, store_first};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Levels;
    use std::arch::x86_64::*;

    /// Makes bytes of the whole numbers of four vectors, as [`Levels::store_bytes`] does. Each part of 16 bytes has four bytes of
    /// each vector. It needs AVX512BW.
    #[inline(always)]
    pub(in super::super) unsafe fn bytes(four: [__m512i; 4], [least, most]: [u8; 2], flip: u8) -> __m512i {
        let [a, b, c, d] = four;
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let mut bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            // Mostly, bytes are bounded already.
            if ([least, most], flip) != ([0, u8::MAX], 0) {
                bytes = _mm512_max_epu8(bytes, _mm512_set1_epi8(least.cast_signed()));
                bytes = _mm512_min_epu8(bytes, _mm512_set1_epi8(most.cast_signed()));
                bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(flip.cast_signed()));
            }
            bytes
        }
    }

    /// Makes bytes of the whole numbers of four vectors, in their order. It needs AVX2.
    #[inline(always)]
    pub(in super::super) unsafe fn bytes_of_eights(
        four: [__m256i; 4],
        [least, most]: [u8; 2],
        flip: u8,
    ) -> __m256i {
        let [a, b, c, d] = four;
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let mut bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            if ([least, most], flip) != ([0, u8::MAX], 0) {
                bytes = _mm256_max_epu8(bytes, _mm256_set1_epi8(least.cast_signed()));
                bytes = _mm256_min_epu8(bytes, _mm256_set1_epi8(most.cast_signed()));
                bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(flip.cast_signed()));
            }
            // Each half has four bytes of each vector.
            _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }

    /// Writes the first `count` bytes of a vector. It needs AVX2.
    #[inline(always)]
    pub(in super::super) unsafe fn store_first(bytes: __m256i, to: *mut u8, count: usize) {
        // SAFETY: there is room for this many bytes, as the caller promises.
        unsafe {
            if count == size_of::<__m256i>() {
                return _mm256_storeu_si256(to.cast(), bytes);
            }
            let mut all = [0_u8; size_of::<__m256i>()];
            _mm256_storeu_si256(all.as_mut_ptr().cast(), bytes);
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
        }
    }

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
        /// It needs AVX512BW as well.
        #[inline(always)]
        unsafe fn store_bytes<const WIDE: usize>(
            four: [Self; 4],
            [least, most]: [u8; 2],
            flip: u8,
            to: *mut u8,
            apart: usize,
        ) {
            // SAFETY: as the trait demands.
            unsafe {
                let [a, b, c, d] = four;
                let whole = [
                    _mm512_cvtps_epi32(a),
                    _mm512_cvtps_epi32(b),
                    _mm512_cvtps_epi32(c),
                    _mm512_cvtps_epi32(d),
                ];
                let bytes = bytes(whole, [least, most], flip);
                // Each part of 16 bytes has four bytes of each vector.
                let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                let bytes = _mm512_permutexvar_epi32(order, bytes);
                macro_rules! write {
                    ($at:literal) => {
                        let to = to.add($at / WIDE * apart + $at % WIDE * 16);
                        _mm_storeu_si128(to.cast::<__m128i>(), _mm512_extracti32x4_epi32::<$at>(bytes));
                    };
                }
                match WIDE {
                    4 => _mm512_storeu_si512(to.cast::<__m512i>(), bytes),
                    2 => {
                        _mm256_storeu_si256(to.cast::<__m256i>(), _mm512_castsi512_si256(bytes));
                        let high = _mm512_extracti64x4_epi64::<1>(bytes);
                        _mm256_storeu_si256(to.add(apart).cast::<__m256i>(), high);
                    }
                    _ => {
                        write!(0);
                        write!(1);
                        write!(2);
                        write!(3);
                    }
                }
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
        unsafe fn store_bytes<const WIDE: usize>(
            four: [Self; 4],
            [least, most]: [u8; 2],
            flip: u8,
            to: *mut u8,
            apart: usize,
        ) {
            // SAFETY: as the trait demands.
            unsafe {
                let [a, b, c, d] = four;
                let whole = [
                    _mm256_cvtps_epi32(a),
                    _mm256_cvtps_epi32(b),
                    _mm256_cvtps_epi32(c),
                    _mm256_cvtps_epi32(d),
                ];
                let bytes = bytes_of_eights(whole, [least, most], flip);
                let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
                match WIDE {
                    4 => _mm256_storeu_si256(to.cast::<__m256i>(), bytes),
                    2 => {
                        _mm_storeu_si128(to.cast::<__m128i>(), low);
                        _mm_storeu_si128(to.add(apart).cast::<__m128i>(), high);
                    }
                    _ => {
                        _mm_storel_epi64(to.cast::<__m128i>(), low);
                        _mm_storel_epi64(to.add(apart).cast::<__m128i>(), _mm_unpackhi_epi64(low, low));
                        _mm_storel_epi64(to.add(2 * apart).cast::<__m128i>(), high);
                        _mm_storel_epi64(to.add(3 * apart).cast::<__m128i>(), _mm_unpackhi_epi64(high, high));
                    }
                }
            }
        }
        #[inline(always)]
        unsafe fn any(mask: Self::Mask) -> bool {
            // SAFETY: as the trait demands.
            unsafe { _mm256_movemask_ps(mask) != 0 }
        }
    }
}

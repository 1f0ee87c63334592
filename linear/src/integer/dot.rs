//! The product of a row of 8-bit integers with 16-bit integers.

use super::wide;
use crate::lanes::Isa;

/// Returns the product of a row of 8-bit integers, minus their zero point, with 16-bit integers.
///
/// # Safety
/// Both factors must have `depth` elements.
pub(super) unsafe fn dot(a: *const u8, signed: bool, point: i16, b: *const i16, depth: usize) -> i32 {
    // SAFETY: as the caller promises.
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, depth), std::slice::from_raw_parts(b, depth)) };
    let rest = depth % 16;
    let ends = (&a[depth - rest..], &b[depth - rest..]);
    let end = ends
        .0
        .iter()
        .zip(ends.1)
        .fold(0_i32, |sum, (a, b)| sum.wrapping_add(i32::from(wide(*a, signed) - point) * i32::from(*b)));
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return end.wrapping_add(unsafe { dot_avx2(&a[..depth - rest], signed, point, b) });
    }
    let pairs = a[..depth - rest].iter().zip(b);
    pairs.fold(end, |sum, (a, b)| sum.wrapping_add(i32::from(wide(*a, signed) - point) * i32::from(*b)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn dot_avx2(a: &[u8], signed: bool, point: i16, b: &[i16]) -> i32 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm256_sub_epi16,
    };
    // SAFETY: both factors have 16 elements for each step, and the array has the size of a vector.
    unsafe {
        let point = _mm256_set1_epi16(point);
        let mut total = _mm256_setzero_si256();
        for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
            let bytes = _mm_loadu_si128(a.as_ptr().cast::<__m128i>());
            let a = if signed { _mm256_cvtepi8_epi16(bytes) } else { _mm256_cvtepu8_epi16(bytes) };
            let b = _mm256_loadu_si256(b.as_ptr().cast::<__m256i>());
            total = _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_sub_epi16(a, point), b));
        }
        let mut lanes = [0_i32; 8];
        _mm256_storeu_si256(lanes.as_mut_ptr().cast::<__m256i>(), total);
        lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
    }
}

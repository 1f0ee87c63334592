//! How numbers become levels of 8 bits: by the definition of `quantize`, to the last level.

use super::levels::Levels;
use crate::chain::Simple;
#[cfg(target_arch = "x86_64")]
use crate::lanes::Isa;
use crate::lanes::widened;

/// How results become levels.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    pub scale: f32,
    /// One divided by the scale, if that is a normal number.
    pub inverse: Option<f32>,
    pub zero: i32,
    /// The least and the greatest level, minus the zero point.
    pub least: f32,
    pub most: f32,
    /// What is changed in the bits of a byte without a sign to make a level of it: a byte with a sign is one without,
    /// minus 128.
    pub flip: u8,
}

/// The distance to the middle between two levels within which a product with the inverse of the scale may round to
/// another level than the quotient. Both are less than 256, so they differ by less than 2^-14.
const NEAR: f32 = 1e-4;

impl Rounding {
    /// Returns how numbers become levels with this scale and this zero point, which are bytes with a sign or without one.
    pub(super) fn new(scale: f32, zero: f32, signed: bool) -> Self {
        let (least, most) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        let inverse = 1.0 / scale;
        Self {
            scale,
            inverse: inverse.is_normal().then_some(inverse),
            zero: zero as i32,
            least: least - zero,
            most: most - zero,
            flip: if signed { 128 } else { 0 },
        }
    }

    /// Narrows the levels to those that a last step leaves, if that makes the step superfluous. Greater numbers never have
    /// lesser levels, so the level of a bounded number is the bounded level.
    pub(super) fn take(&mut self, last: Simple) -> bool {
        let (least, most) = match last {
            Simple::Relu => (0.0, f32::INFINITY),
            Simple::Clip(least, most) => (least, most),
            _ => return false,
        };
        let level = |x: f32| (x / self.scale).max(self.least).min(self.most).round_ties_even();
        // NaN gets the least level with and without the step, so the least level must stay the same.
        if !(self.scale > 0.0 && least <= most && level(least) == self.least) {
            return false;
        }
        self.most = level(most);
        true
    }

    /// Returns numbers that round to the levels of others, minus the zero point. NaN has the least level.
    ///
    /// A quotient takes several times as long as a product, so numbers are multiplied by the inverse of the scale, and
    /// divided only where a product lies near the middle between two levels.
    // Loops in place of iterators: closures that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    pub(super) unsafe fn levels<V: Levels, const N: usize>(&self, x: [V; N]) -> [V; N] {
        // SAFETY: the processor has the instruction set, as the caller promises.
        unsafe {
            let (least, most) = (V::splat(self.least), V::splat(self.most));
            let mut levels = x;
            if let Some(inverse) = self.inverse {
                let inverse = V::splat(inverse);
                let mut farthest = V::splat(0.0);
                for at in 0..N {
                    levels[at] = x[at].mul(inverse).max(least).min(most);
                    farthest = levels[at].fraction().greater(farthest);
                }
                if !V::any(V::splat(0.5 - NEAR).less(farthest)) {
                    return levels;
                }
            }
            let scale = V::splat(self.scale);
            for at in 0..N {
                levels[at] = x[at].div(scale).max(least).min(most);
            }
            levels
        }
    }
}

/// The numbers that one step of [`Rounding::write`] makes levels of, in four vectors of eight or of sixteen.
#[cfg(target_arch = "x86_64")]
const EIGHTS: usize = 32;
#[cfg(target_arch = "x86_64")]
const SIXTEENS: usize = 64;

impl Rounding {
    /// Writes the levels of some numbers.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn write(&self, from: *const f32, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            match Isa::running() {
                Isa::Avx512 if count >= SIXTEENS && is_x86_feature_detected!("avx512bw") => {
                    return self.sixteens(from, to, count);
                }
                Isa::Avx512 | Isa::Avx2 if count >= EIGHTS => return self.eights(from, to, count),
                _ => {}
            }
            few(self, from, to, count);
        }
    }

    /// Returns the bits of the least distance from a whole number that is near the middle between two. Numbers without a sign
    /// are ordered as their bits are.
    #[cfg(target_arch = "x86_64")]
    fn near() -> i32 {
        (0.5 - NEAR).to_bits().cast_signed()
    }

    /// Writes levels, 64 at a time, of which the last ones may be some that were written before.
    // Loops in place of iterators: closures that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx2,fma")]
    unsafe fn sixteens(&self, from: *const f32, to: *mut u8, count: usize) {
        use std::arch::x86_64::*;
        // SAFETY: as the caller of `write` promises, and there are at least 64 elements.
        unsafe {
            let (least, most) = (_mm512_set1_ps(self.least), _mm512_set1_ps(self.most));
            let (scale, inverse) = (_mm512_set1_ps(self.scale), _mm512_set1_ps(self.inverse.unwrap_or(0.0)));
            let (zero, near) =
                (_mm512_set1_epi32(self.zero + i32::from(self.flip)), _mm512_set1_epi32(Self::near()));
            let magnitude = _mm512_set1_epi32(i32::MAX);
            // Each part of 16 bytes has four bytes of each vector.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let mut at = 0;
            while at < count {
                at = at.min(count - SIXTEENS);
                let (mut x, mut whole) = ([_mm512_setzero_ps(); 4], [_mm512_setzero_si512(); 4]);
                let mut farthest = _mm512_setzero_si512();
                for n in 0..4 {
                    x[n] = _mm512_loadu_ps(from.add(at + 16 * n));
                    // NaN becomes the second operand.
                    let level = _mm512_max_ps(_mm512_mul_ps(x[n], inverse), least);
                    let level = _mm512_min_ps(level, most);
                    whole[n] = _mm512_cvtps_epi32(level);
                    let fraction = _mm512_sub_ps(level, _mm512_cvtepi32_ps(whole[n]));
                    let distance = _mm512_and_si512(_mm512_castps_si512(fraction), magnitude);
                    farthest = _mm512_max_epi32(farthest, distance);
                }
                if self.inverse.is_none() || _mm512_cmpgt_epi32_mask(farthest, near) != 0 {
                    for n in 0..4 {
                        let level = _mm512_max_ps(_mm512_div_ps(x[n], scale), least);
                        whole[n] = _mm512_cvtps_epi32(_mm512_min_ps(level, most));
                    }
                }
                for n in 0..4 {
                    whole[n] = _mm512_add_epi32(whole[n], zero);
                }
                let bytes = super::levels::bytes(whole, [0, 255], self.flip);
                let bytes = _mm512_permutexvar_epi32(order, bytes);
                _mm512_storeu_si512(to.add(at).cast::<__m512i>(), bytes);
                at += SIXTEENS;
            }
        }
    }

    /// As [`sixteens`](Rounding::sixteens), 32 at a time.
    // Loops in place of iterators: closures that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn eights(&self, from: *const f32, to: *mut u8, count: usize) {
        use std::arch::x86_64::*;
        // SAFETY: as the caller of `write` promises, and there are at least 32 elements.
        unsafe {
            let (least, most) = (_mm256_set1_ps(self.least), _mm256_set1_ps(self.most));
            let (scale, inverse) = (_mm256_set1_ps(self.scale), _mm256_set1_ps(self.inverse.unwrap_or(0.0)));
            let (zero, near) =
                (_mm256_set1_epi32(self.zero + i32::from(self.flip)), _mm256_set1_epi32(Self::near()));
            let magnitude = _mm256_set1_epi32(i32::MAX);
            let mut at = 0;
            while at < count {
                at = at.min(count - EIGHTS);
                let (mut x, mut whole) = ([_mm256_setzero_ps(); 4], [_mm256_setzero_si256(); 4]);
                let mut farthest = _mm256_setzero_si256();
                for n in 0..4 {
                    x[n] = _mm256_loadu_ps(from.add(at + 8 * n));
                    // NaN becomes the second operand.
                    let level = _mm256_max_ps(_mm256_mul_ps(x[n], inverse), least);
                    let level = _mm256_min_ps(level, most);
                    whole[n] = _mm256_cvtps_epi32(level);
                    let fraction = _mm256_sub_ps(level, _mm256_cvtepi32_ps(whole[n]));
                    let distance = _mm256_and_si256(_mm256_castps_si256(fraction), magnitude);
                    farthest = _mm256_max_epi32(farthest, distance);
                }
                let close = _mm256_movemask_epi8(_mm256_cmpgt_epi32(farthest, near)) != 0;
                if self.inverse.is_none() || close {
                    for n in 0..4 {
                        let level = _mm256_max_ps(_mm256_div_ps(x[n], scale), least);
                        whole[n] = _mm256_cvtps_epi32(_mm256_min_ps(level, most));
                    }
                }
                for n in 0..4 {
                    whole[n] = _mm256_add_epi32(whole[n], zero);
                }
                let bytes = super::levels::bytes_of_eights(whole, [0, 255], self.flip);
                _mm256_storeu_si256(to.add(at).cast::<__m256i>(), bytes);
                at += EIGHTS;
            }
        }
    }
}

widened! {
    /// Writes the levels of some numbers, a vector at a time.
    unsafe fn few(rounding: &Rounding, from: *const f32, to: *mut u8, count: usize) = few_on;
}

/// # Safety
/// As for [`Rounding::write`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn few_on<V: Levels>(rounding: &Rounding, from: *const f32, to: *mut u8, count: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut at = 0;
        while at < count {
            let rest = count - at;
            if rest < V::COUNT {
                let mut some = [0; 16];
                let [numbers] = rounding.levels([V::load_first(from.add(at), rest)]);
                numbers.store_levels(rounding.zero, some.as_mut_ptr());
                std::ptr::copy_nonoverlapping(some.as_ptr(), to.add(at), rest);
            } else {
                let [numbers] = rounding.levels([V::load(from.add(at))]);
                numbers.store_levels(rounding.zero, to.add(at));
            }
            at += V::COUNT;
        }
    }
}

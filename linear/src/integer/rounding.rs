//! How numbers become levels of 8 bits: by the definition of `quantize`, to the last level.

use super::levels::Levels;
use crate::chain::Simple;
#[cfg(target_arch = "x86_64")]
use crate::lanes::Isa;

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
                Isa::Avx512 if is_x86_feature_detected!("avx512bw") => return self.avx512(from, to, count),
                Isa::Avx512 | Isa::Avx2 => return self.avx2(from, to, count),
                _ => {}
            }
            self.write_on::<[f32; 8]>(from, to, count);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512(&self, from: *const f32, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.write_on::<std::arch::x86_64::__m512>(from, to, count) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, from: *const f32, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.write_on::<std::arch::x86_64::__m256>(from, to, count) }
    }

    /// Writes levels by four vectors at a time, of which the last ones may be some that were written before; fewer numbers
    /// than these hold by one vector at a time.
    // Loops in place of iterators: closures that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn write_on<V: Levels>(&self, from: *const f32, to: *mut u8, count: usize) {
        let step = 4 * V::COUNT;
        let mut at = 0;
        // SAFETY: as the caller promises.
        unsafe {
            if count < step {
                while at < count {
                    let rest = (count - at).min(V::COUNT);
                    let mut some = [0; 16];
                    let [numbers] = self.levels([V::load_first(from.add(at), rest)]);
                    numbers.store_levels(self.zero, some.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(some.as_ptr(), to.add(at), rest);
                    at += V::COUNT;
                }
                return;
            }
            let zero = V::splat((self.zero + i32::from(self.flip)) as f32);
            while at < count {
                at = at.min(count - step);
                let mut numbers = [V::splat(0.0); 4];
                for n in 0..4 {
                    numbers[n] = V::load(from.add(at + n * V::COUNT));
                }
                let mut levels = self.levels(numbers);
                for n in 0..4 {
                    // A half would become another integer after an odd zero point was added.
                    levels[n] = levels[n].round_even().add(zero);
                }
                V::store_bytes::<4>(levels, [0, 255], self.flip, to.add(at), 0);
                at += step;
            }
        }
    }
}

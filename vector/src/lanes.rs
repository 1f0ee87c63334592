//! Vectors of `f32`, with one trait for all instruction sets.
//!
//! Kernels are generic over [`Lanes`] and are inlined into functions that are compiled for one instruction set.
//! [`Isa::running`] selects the set at run time, and [`widened`] generates these functions.

pub use super::isa::Isa;
pub use crate::widened;

/// Defines `fn $name(args)`, which runs `$body::<V>(args)` compiled for the processor's instruction set. With `of
/// $lanes`, vectors have at most that many lanes.
#[macro_export]
macro_rules! widened {
    ($(#[$meta:meta])* $visibility:vis unsafe fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident;) => {
        $crate::widened! {
            $(#[$meta])* $visibility unsafe fn $name($($arg: $type),*) = $body of 16;
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis unsafe fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident of $lanes:expr;
    ) => {
        $(#[$meta])*
        $visibility unsafe fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: as the caller of the outer function promises.
                unsafe { $body::<std::arch::x86_64::__m512>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: as the caller of the outer function promises.
                unsafe { $body::<std::arch::x86_64::__m256>($($arg),*) }
            }
            // SAFETY: the processor has the instruction set.
            unsafe {
                match $crate::isa::Isa::running() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::isa::Isa::Avx512 if $lanes >= 16 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::isa::Isa::Avx512
                    | $crate::isa::Isa::Avx2 => avx2($($arg),*),
                    _ => $body::<[f32; 8]>($($arg),*),
                }
            }
        }
    };
}

/// Prefetches a cache line that will be read soon. Any address is allowed.
#[inline(always)]
pub fn prefetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and all processors of this architecture support it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// A vector of `f32`. A comparison with a NaN is false; then `min` and `max` return their right operand.
///
/// # Safety
/// For all functions the processor must have the instruction set; for loads and stores the accessed lanes must be in
/// bounds.
#[allow(clippy::missing_safety_doc)]
pub trait Lanes: Copy {
    /// The number of lanes.
    const COUNT: usize;
    /// Whether [`Lanes::mul_add`] rounds only once.
    const FUSED: bool;
    /// Whether many processors of this architecture use these vectors, so that code of its own for a common shape is
    /// worth the time to compile it.
    const COMMON: bool;
    /// The result of a comparison: a truth value for each lane.
    type Mask: Copy;
    /// Returns the value in all lanes.
    unsafe fn splat(value: f32) -> Self;
    /// Loads all lanes, from any address.
    unsafe fn load(from: *const f32) -> Self;
    /// Stores all lanes, at any address.
    unsafe fn store(self, to: *mut f32);
    /// Loads the first `count` lanes; the others are zero.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Stores the first `count` lanes.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Returns the first `count` lanes, and zero in the others, whatever they hold.
    unsafe fn keep_first(self, count: usize) -> Self;
    /// Returns `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self - other`.
    unsafe fn sub(self, other: Self) -> Self;
    /// Returns `self * other`.
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns `self / other`.
    unsafe fn div(self, other: Self) -> Self;
    /// Returns `self * factor + term`, rounded only once if the processor supports it.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// Returns the smaller of the two.
    unsafe fn min(self, other: Self) -> Self;
    /// Returns the larger of the two.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns the square root.
    unsafe fn sqrt(self) -> Self;
    /// Rounds down to a whole number.
    unsafe fn floor(self) -> Self;
    /// Rounds up to a whole number.
    unsafe fn ceil(self) -> Self;
    /// Rounds to the nearest whole number, and to the even one of two.
    unsafe fn round_even(self) -> Self;
    /// Returns the magnitude.
    unsafe fn abs(self) -> Self;
    /// Returns the magnitude of `self` with the sign of `other`.
    unsafe fn with_sign_of(self, other: Self) -> Self;
    /// Returns whether `self < other`.
    unsafe fn less(self, other: Self) -> Self::Mask;
    /// Returns whether `self = other`.
    unsafe fn equal(self, other: Self) -> Self::Mask;
    /// Returns the lane of `yes` where the mask is true, and that of `no` elsewhere.
    unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Returns `self * 2^power`, where `power` is a whole number between -252 and 252.
    unsafe fn scale(self, power: Self) -> Self;
    /// Returns the exponent and the number scaled into [1, 2), for positive normal numbers.
    unsafe fn exponent(self) -> (Self, Self);
    /// Permutes the lanes: lane `i` of the result is lane `from[i]`.
    unsafe fn pick(self, from: &[i32; 16]) -> Self;
    /// Returns the sum of the lanes.
    unsafe fn sum(self) -> f32;
    /// Returns the largest lane.
    unsafe fn greatest(self) -> f32;

    /// Applies a scalar function to each lane.
    #[inline(always)]
    unsafe fn each(self, function: impl Fn(f32) -> f32) -> Self {
        let mut lanes = [0.0; 16];
        // SAFETY: no instruction set has more than 16 lanes.
        unsafe {
            self.store(lanes.as_mut_ptr());
            lanes[..Self::COUNT].iter_mut().for_each(|lane| *lane = function(*lane));
            Self::load(lanes.as_ptr())
        }
    }
}

/// Arrays as vectors, for processors without a supported instruction set.
#[allow(clippy::needless_range_loop)]
mod portable {
    use super::Lanes;

    macro_rules! lanewise {
        ($($name:ident($this:ident $(, $arg:ident)*) = $value:expr;)*) => { $(
            #[inline(always)]
            unsafe fn $name(self, $($arg: Self),*) -> Self {
                let mut result = self;
                for i in 0..8 {
                    let $this = self[i];
                    $(let $arg = $arg[i];)*
                    result[i] = $value;
                }
                result
            }
        )* };
    }

    impl Lanes for [f32; 8] {
        const COUNT: usize = 8;
        const FUSED: bool = false;
        const COMMON: bool = cfg!(not(target_arch = "x86_64"));
        type Mask = [bool; 8];

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            [value; 8]
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: in bounds, as the trait requires.
            unsafe { from.cast::<Self>().read_unaligned() }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: in bounds, as the trait requires.
            unsafe { to.cast::<Self>().write_unaligned(self) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            let mut lanes = [0.0; 8];
            // SAFETY: in bounds, as the trait requires.
            (0..count.min(8)).for_each(|i| lanes[i] = unsafe { *from.add(i) });
            lanes
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            // SAFETY: in bounds, as the trait requires.
            (0..count.min(8)).for_each(|i| unsafe { *to.add(i) = self[i] });
        }
        #[inline(always)]
        unsafe fn keep_first(self, count: usize) -> Self {
            std::array::from_fn(|i| if i < count { self[i] } else { 0.0 })
        }
        lanewise! {
            add(a, b) = a + b;
            sub(a, b) = a - b;
            mul(a, b) = a * b;
            div(a, b) = a / b;
            mul_add(a, b, c) = a * b + c;
            min(a, b) = if a < b { a } else { b };
            max(a, b) = if a > b { a } else { b };
            sqrt(a) = a.sqrt();
            floor(a) = a.floor();
            ceil(a) = a.ceil();
            round_even(a) = a.round_ties_even();
            abs(a) = a.abs();
            with_sign_of(a, b) = a.copysign(b);
            scale(a, p) = {
                let half = (p as i32) >> 1;
                let two = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
                a * two(half) * two(p as i32 - half)
            };
        }
        #[inline(always)]
        unsafe fn less(self, other: Self) -> Self::Mask {
            std::array::from_fn(|i| self[i] < other[i])
        }
        #[inline(always)]
        unsafe fn equal(self, other: Self) -> Self::Mask {
            std::array::from_fn(|i| self[i] == other[i])
        }
        #[inline(always)]
        unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            std::array::from_fn(|i| if mask[i] { yes[i] } else { no[i] })
        }
        #[inline(always)]
        unsafe fn exponent(self) -> (Self, Self) {
            let bits = self.map(f32::to_bits);
            let exponents = bits.map(|b| ((b >> 23) as i32 - 127) as f32);
            (exponents, bits.map(|b| f32::from_bits(b & 0x007f_ffff | 0x3f80_0000)))
        }
        #[inline(always)]
        unsafe fn pick(self, from: &[i32; 16]) -> Self {
            std::array::from_fn(|i| self[from[i] as usize & 7])
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            self.iter().sum()
        }
        #[inline(always)]
        unsafe fn greatest(self) -> f32 {
            self.iter().copied().fold(f32::NEG_INFINITY, f32::max)
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    macro_rules! direct {
        ($($name:ident($this:ident $(, $arg:ident)*) = $value:expr;)*) => { $(
            #[inline(always)]
            unsafe fn $name(self, $($arg: Self),*) -> Self {
                let $this = self;
                // SAFETY: the processor has the instruction set, as the trait requires.
                unsafe { $value }
            }
        )* };
    }

    /// Returns a mask of the first `count` lanes.
    #[inline(always)]
    fn first16(count: usize) -> __mmask16 {
        ((1_u32 << count.min(16)) - 1) as u16
    }

    impl Lanes for __m512 {
        const COUNT: usize = 16;
        const FUSED: bool = true;
        const COMMON: bool = true;
        type Mask = __mmask16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the trait demands.
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: as the trait demands; other lanes are not touched.
            unsafe { _mm512_maskz_loadu_ps(first16(count), from) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            // SAFETY: as the trait demands; other lanes are not touched.
            unsafe { _mm512_mask_storeu_ps(to, first16(count), self) }
        }
        #[inline(always)]
        unsafe fn keep_first(self, count: usize) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_maskz_mov_ps(first16(count), self) }
        }
        direct! {
            add(a, b) = _mm512_add_ps(a, b);
            sub(a, b) = _mm512_sub_ps(a, b);
            mul(a, b) = _mm512_mul_ps(a, b);
            div(a, b) = _mm512_div_ps(a, b);
            mul_add(a, b, c) = _mm512_fmadd_ps(a, b, c);
            min(a, b) = _mm512_min_ps(a, b);
            max(a, b) = _mm512_max_ps(a, b);
            sqrt(a) = _mm512_sqrt_ps(a);
            floor(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
            ceil(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a);
            round_even(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
            abs(a) = _mm512_abs_ps(a);
            with_sign_of(a, b) = {
                let sign = _mm512_set1_ps(-0.0);
                _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, b))
            };
            scale(a, p) = _mm512_scalef_ps(a, p);
        }
        #[inline(always)]
        unsafe fn less(self, other: Self) -> Self::Mask {
            // SAFETY: as the trait demands.
            unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn equal(self, other: Self) -> Self::Mask {
            // SAFETY: as the trait demands.
            unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_mask_blend_ps(mask, no, yes) }
        }
        #[inline(always)]
        unsafe fn exponent(self) -> (Self, Self) {
            // SAFETY: as the trait demands.
            unsafe {
                let mantissa = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(self);
                (_mm512_getexp_ps(self), mantissa)
            }
        }
        #[inline(always)]
        unsafe fn pick(self, from: &[i32; 16]) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm512_permutexvar_ps(_mm512_loadu_si512(from.as_ptr().cast()), self) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: as the trait demands.
            unsafe { _mm512_reduce_add_ps(self) }
        }
        #[inline(always)]
        unsafe fn greatest(self) -> f32 {
            // SAFETY: as the trait demands.
            unsafe { _mm512_reduce_max_ps(self) }
        }
    }

    /// Returns a mask of the first `count` lanes.
    #[inline(always)]
    unsafe fn first8(count: usize) -> __m256i {
        // SAFETY: as the trait demands.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), lanes)
        }
    }

    impl Lanes for __m256 {
        const COUNT: usize = 8;
        const FUSED: bool = true;
        const COMMON: bool = true;
        type Mask = __m256;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the trait demands.
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: as the trait demands; other lanes are not touched.
            unsafe { _mm256_maskload_ps(from, first8(count)) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            // SAFETY: as the trait demands; other lanes are not touched.
            unsafe { _mm256_maskstore_ps(to, first8(count), self) }
        }
        #[inline(always)]
        unsafe fn keep_first(self, count: usize) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_and_ps(self, _mm256_castsi256_ps(first8(count))) }
        }
        direct! {
            add(a, b) = _mm256_add_ps(a, b);
            sub(a, b) = _mm256_sub_ps(a, b);
            mul(a, b) = _mm256_mul_ps(a, b);
            div(a, b) = _mm256_div_ps(a, b);
            mul_add(a, b, c) = _mm256_fmadd_ps(a, b, c);
            min(a, b) = _mm256_min_ps(a, b);
            max(a, b) = _mm256_max_ps(a, b);
            sqrt(a) = _mm256_sqrt_ps(a);
            floor(a) = _mm256_floor_ps(a);
            ceil(a) = _mm256_ceil_ps(a);
            round_even(a) = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
            abs(a) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
            with_sign_of(a, b) = {
                let sign = _mm256_set1_ps(-0.0);
                _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b))
            };
            scale(a, p) = {
                let power = _mm256_cvtps_epi32(p);
                let half = _mm256_srai_epi32::<1>(power);
                let bias = _mm256_set1_epi32(127);
                let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
                let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias));
                _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second))
            };
        }
        #[inline(always)]
        unsafe fn less(self, other: Self) -> Self::Mask {
            // SAFETY: as the trait demands.
            unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn equal(self, other: Self) -> Self::Mask {
            // SAFETY: as the trait demands.
            unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_blendv_ps(no, yes, mask) }
        }
        #[inline(always)]
        unsafe fn exponent(self) -> (Self, Self) {
            // SAFETY: as the trait demands.
            unsafe {
                let bits = _mm256_castps_si256(self);
                let exponent = _mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(127));
                let mantissa = _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff));
                let mantissa = _mm256_or_si256(mantissa, _mm256_set1_epi32(0x3f80_0000));
                (_mm256_cvtepi32_ps(exponent), _mm256_castsi256_ps(mantissa))
            }
        }
        #[inline(always)]
        unsafe fn pick(self, from: &[i32; 16]) -> Self {
            // SAFETY: as the trait demands.
            unsafe { _mm256_permutevar8x32_ps(self, _mm256_loadu_si256(from.as_ptr().cast())) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: as the trait demands.
            let lanes: [f32; 8] = unsafe { std::mem::transmute(self) };
            let half = |i: usize| lanes[i] + lanes[i + 4];
            (half(0) + half(2)) + (half(1) + half(3))
        }
        #[inline(always)]
        unsafe fn greatest(self) -> f32 {
            // SAFETY: as the trait demands.
            let lanes: [f32; 8] = unsafe { std::mem::transmute(self) };
            lanes.iter().copied().fold(f32::NEG_INFINITY, f32::max)
        }
    }
}

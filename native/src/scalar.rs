//! Element types as Rust numbers, with conversion, arithmetic and comparison for generic kernels.

use half::{bf16, f16};

/// A boolean as it is stored in memory.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct Flag(pub u8);

/// A number of any element type. Conversions between integers wrap, conversions from floats saturate, and a
/// conversion to a boolean returns whether the number is not zero.
pub(super) trait Scalar: bytemuck::Pod + PartialEq + PartialOrd + Send + Sync {
    fn cast<T: Scalar>(self) -> T;
    fn from_i64(value: i64) -> Self;
    /// As [`Scalar::from_i64`]; instruction sets have vectors of such conversions to floats.
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        Self::from_i64(i64::from(value))
    }
    fn from_u64(value: u64) -> Self {
        Self::from_i64(value as i64)
    }
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
}

macro_rules! integer {
    ($wide:ty, $from:ident: $($type:ty),*) => { $(impl Scalar for $type {
        #[inline(always)]
        fn cast<T: Scalar>(self) -> T { T::$from(self as $wide) }
        #[inline(always)]
        fn from_i64(value: i64) -> Self { value as Self }
        #[inline(always)]
        fn from_i32(value: i32) -> Self { value as Self }
        #[inline(always)]
        fn from_f32(value: f32) -> Self { value as Self }
        #[inline(always)]
        fn from_f64(value: f64) -> Self { value as Self }
    })* };
}
integer!(i32, from_i32: u8, u16, i8, i16, i32);
integer!(i64, from_i64: u32, i64);

impl Scalar for u64 {
    #[inline(always)]
    fn cast<T: Scalar>(self) -> T {
        T::from_u64(self)
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

impl Scalar for Flag {
    #[inline(always)]
    fn cast<T: Scalar>(self) -> T {
        T::from_i32(i32::from(self.0 != 0))
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self(u8::from(value != 0))
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self(u8::from(value != 0.0))
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self(u8::from(value != 0.0))
    }
}

macro_rules! float {
    ($($type:ty),*) => { $(impl Scalar for $type {
        #[inline(always)]
        fn cast<T: Scalar>(self) -> T { T::from_f32(self.to_f32()) }
        #[inline(always)]
        fn from_i64(value: i64) -> Self { <$type>::from_f64(value as f64) }
        #[inline(always)]
        fn from_u64(value: u64) -> Self { <$type>::from_f64(value as f64) }
        #[inline(always)]
        fn from_f32(value: f32) -> Self { <$type>::from_f32(value) }
        #[inline(always)]
        fn from_f64(value: f64) -> Self { <$type>::from_f64(value) }
    })* };
}
float!(f16, bf16);

impl Scalar for f32 {
    #[inline(always)]
    fn cast<T: Scalar>(self) -> T {
        T::from_f32(self)
    }
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

impl Scalar for f64 {
    #[inline(always)]
    fn cast<T: Scalar>(self) -> T {
        T::from_f64(self)
    }
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        Self::from(value)
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::from(value)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}

/// Returns whether an element type has a Rust type.
pub(super) fn has_scalar(dtype: ovolo::tensor::DType) -> bool {
    dtype.is_number() || dtype == ovolo::tensor::DType::Bool
}

/// Runs `$body` with the type alias `$T` for the Rust type of an element type that [`has_scalar`].
macro_rules! with_scalar {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ::ovolo::tensor::DType::Bool => {
                type $T = $crate::scalar::Flag;
                $body
            }
            ::ovolo::tensor::DType::U8 => {
                type $T = u8;
                $body
            }
            ::ovolo::tensor::DType::U16 => {
                type $T = u16;
                $body
            }
            ::ovolo::tensor::DType::U32 => {
                type $T = u32;
                $body
            }
            ::ovolo::tensor::DType::U64 => {
                type $T = u64;
                $body
            }
            ::ovolo::tensor::DType::I16 => {
                type $T = i16;
                $body
            }
            ::ovolo::tensor::DType::I8 => {
                type $T = i8;
                $body
            }
            ::ovolo::tensor::DType::I32 => {
                type $T = i32;
                $body
            }
            ::ovolo::tensor::DType::I64 => {
                type $T = i64;
                $body
            }
            ::ovolo::tensor::DType::F16 => {
                type $T = half::f16;
                $body
            }
            ::ovolo::tensor::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            ::ovolo::tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            ::ovolo::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            other => unreachable!("no kernel computes with {other}"),
        }
    };
}
pub(super) use with_scalar;

/// A number with arithmetic. Integers wrap, and an integer divided by zero is zero.
pub(super) trait Number: Scalar {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// Returns the remainder with the sign of the dividend.
    fn remainder(self, other: Self) -> Self;
    /// Returns the remainder with the sign of the divisor.
    fn modulo(self, other: Self) -> Self;
}

macro_rules! integer_number {
    ($($type:ty),*) => { $(#[allow(unused_comparisons)] impl Number for $type {
        #[inline(always)]
        fn add(self, other: Self) -> Self { self.wrapping_add(other) }
        #[inline(always)]
        fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
        #[inline(always)]
        fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        #[inline(always)]
        fn div(self, other: Self) -> Self { if other == 0 { 0 } else { self.wrapping_div(other) } }
        fn pow(self, other: Self) -> Self {
            if other < 0 {
                // The power is a fraction, which is rounded towards zero, unless the base is 1 or -1.
                let one = Self::from(self == 1);
                let minus_one = self.wrapping_add(1) == 0;
                return if !minus_one { one } else if other % 2 == 0 { 1 } else { self };
            }
            let (mut base, mut exponent, mut power): (Self, Self, Self) = (self, other, 1);
            while exponent > 0 {
                if exponent % 2 == 1 {
                    power = power.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                exponent /= 2;
            }
            power
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self { Ord::min(self, other) }
        #[inline(always)]
        fn max(self, other: Self) -> Self { Ord::max(self, other) }
        #[inline(always)]
        fn remainder(self, other: Self) -> Self { if other == 0 { 0 } else { self.wrapping_rem(other) } }
        #[inline(always)]
        fn modulo(self, other: Self) -> Self {
            let rest = Number::remainder(self, other);
            if rest != 0 && (rest < 0) != (other < 0) { rest.wrapping_add(other) } else { rest }
        }
    })* };
}
integer_number!(u8, u16, u32, u64, i8, i16, i32, i64);

/// An integer with ops on its bits.
pub(super) trait Bits: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Returns the bits moved up; none is left if `places` is negative or large.
    fn shift_left(self, places: Self) -> Self;
    /// Returns the bits moved down; only the sign is left if `places` is negative or large.
    fn shift_right(self, places: Self) -> Self;
}

macro_rules! bits {
    ($($type:ty),*) => { $(impl Bits for $type {
        #[inline(always)]
        fn and(self, other: Self) -> Self { self & other }
        #[inline(always)]
        fn or(self, other: Self) -> Self { self | other }
        #[inline(always)]
        fn xor(self, other: Self) -> Self { self ^ other }
        #[inline(always)]
        fn shift_left(self, places: Self) -> Self {
            if (0..i64::from(Self::BITS)).contains(&(places as i64)) { self << places } else { 0 }
        }
        #[inline(always)]
        fn shift_right(self, places: Self) -> Self {
            let within = (0..i64::from(Self::BITS)).contains(&(places as i64));
            if within { self >> places } else { self >> (Self::BITS - 1) >> 1 }
        }
    })* };
}
bits!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! float_number {
    ($type:ty, $wide:ty, $up:expr, $down:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $down($up(self) + $up(other))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                $down($up(self) - $up(other))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $down($up(self) * $up(other))
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                $down($up(self) / $up(other))
            }
            fn pow(self, other: Self) -> Self {
                $down(<$wide>::powf($up(self), $up(other)))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let (a, b) = ($up(self), $up(other));
                // A NaN stays, whichever side it is on.
                if a.is_nan() || a < b { self } else { other }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let (a, b) = ($up(self), $up(other));
                if a.is_nan() || a > b { self } else { other }
            }
            fn remainder(self, other: Self) -> Self {
                $down($up(self) % $up(other))
            }
            fn modulo(self, other: Self) -> Self {
                let (a, b) = ($up(self), $up(other));
                let rest = a % b;
                // A zero has the sign of the divisor.
                $down(match rest == 0.0 {
                    true => rest.copysign(b),
                    false if (rest < 0.0) != (b < 0.0) => rest + b,
                    false => rest,
                })
            }
        }
    };
}
float_number!(f32, f32, |v: f32| v, |v: f32| v);
float_number!(f64, f64, |v: f64| v, |v: f64| v);
float_number!(f16, f32, |v: f16| v.to_f32(), f16::from_f32);
float_number!(bf16, f32, |v: bf16| v.to_f32(), bf16::from_f32);

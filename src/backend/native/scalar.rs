//! Element types as Rust numbers: conversion, arithmetic and comparison for generic kernels.

use crate::tensor::DType;
use half::{bf16, f16};

/// A boolean as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct Flag(pub u8);

/// A number of any element type. Conversions between integers wrap, from floats they saturate,
/// and to a boolean they tell whether the number is not zero.
pub(super) trait Scalar: bytemuck::Pod + PartialEq + PartialOrd + Send + Sync {
    fn cast<T: Scalar>(self) -> T;
    fn from_i64(value: i64) -> Self;
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
}

macro_rules! integer {
    ($($type:ty),*) => { $(impl Scalar for $type {
        #[inline(always)]
        fn cast<T: Scalar>(self) -> T { T::from_i64(self as i64) }
        #[inline(always)]
        fn from_i64(value: i64) -> Self { value as Self }
        #[inline(always)]
        fn from_f32(value: f32) -> Self { value as Self }
        #[inline(always)]
        fn from_f64(value: f64) -> Self { value as Self }
    })* };
}
integer!(u8, i8, i32, i64);

impl Scalar for Flag {
    #[inline(always)]
    fn cast<T: Scalar>(self) -> T {
        T::from_i64(i64::from(self.0 != 0))
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
    fn from_i64(value: i64) -> Self {
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
    fn from_i64(value: i64) -> Self {
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

/// Runs `$body` with the type alias `$T` standing for the Rust type of an element type.
macro_rules! with_scalar {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::Bool => {
                type $T = $crate::backend::native::scalar::Flag;
                $body
            }
            $crate::tensor::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::tensor::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::tensor::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::tensor::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::tensor::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::tensor::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(super) use with_scalar;

/// Whether a type is computed in its own arithmetic by the generic kernels.
pub(super) fn is_native(dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::BF16)
}

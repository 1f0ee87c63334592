//! How an update is combined with the element at its position.

use super::super::scalar::Number;
use ovolo::backend::Call;
use ovolo::tensor::DType;

/// A reduction of elements.
pub(super) trait Combine<T>: Send + Sync {
    fn of(old: T, update: T) -> T;
}

/// The update replaces the element.
pub(super) struct Replace;
/// The sum; integers wrap.
pub(super) struct Add;
/// The product; integers wrap.
pub(super) struct Mul;
/// The larger one; NaN if one is.
pub(super) struct Max;
/// The smaller one; NaN if one is.
pub(super) struct Min;

impl<T: Send + Sync> Combine<T> for Replace {
    #[inline(always)]
    fn of(_: T, update: T) -> T {
        update
    }
}

impl<T: Number> Combine<T> for Add {
    #[inline(always)]
    fn of(old: T, update: T) -> T {
        old.add(update)
    }
}

impl<T: Number> Combine<T> for Mul {
    #[inline(always)]
    fn of(old: T, update: T) -> T {
        old.mul(update)
    }
}

impl<T: PartialOrd + Copy + Send + Sync> Combine<T> for Max {
    #[inline(always)]
    #[allow(clippy::eq_op)] // Only NaN is not equal to itself.
    fn of(old: T, update: T) -> T {
        if update > old || update != update { update } else { old }
    }
}

impl<T: PartialOrd + Copy + Send + Sync> Combine<T> for Min {
    #[inline(always)]
    #[allow(clippy::eq_op)] // Only NaN is not equal to itself.
    fn of(old: T, update: T) -> T {
        if update < old || update != update { update } else { old }
    }
}

/// Returns whether there is code for the reduction of a call. Types of 16 bits, whose sums are rounded once at the end,
/// are widened instead.
pub(super) fn takes(call: &Call<'_>) -> bool {
    let replaces = call.attrs.get("reduction").is_none() || call.attrs.expect_str("reduction") == "none";
    let dtype = call.output.dtype;
    match replaces {
        true => matches!(dtype.size(), 1 | 2 | 4 | 8),
        false => !matches!(dtype, DType::F16 | DType::BF16) && super::super::scalar::has_scalar(dtype),
    }
}

/// Runs `$body` with the element type `$T` and the reduction `$C` of a call that [`takes`].
macro_rules! with_combine {
    ($call:expr, $T:ident, $C:ident => $body:expr) => {{
        use $crate::scatter::combine;
        macro_rules! typed {
            ($type:ty, $combine:ident) => {{
                type $T = $type;
                type $C = combine::$combine;
                $body as Box<dyn ovolo::backend::Kernel>
            }};
        }
        macro_rules! numbers {
            ($combine:ident) => {
                match $call.output.dtype {
                    ovolo::tensor::DType::U16 => typed!(u16, $combine),
                    ovolo::tensor::DType::U32 => typed!(u32, $combine),
                    ovolo::tensor::DType::U64 => typed!(u64, $combine),
                    ovolo::tensor::DType::I8 => typed!(i8, $combine),
                    ovolo::tensor::DType::I16 => typed!(i16, $combine),
                    ovolo::tensor::DType::I32 => typed!(i32, $combine),
                    ovolo::tensor::DType::I64 => typed!(i64, $combine),
                    ovolo::tensor::DType::F32 => typed!(f32, $combine),
                    ovolo::tensor::DType::F64 => typed!(f64, $combine),
                    // Booleans are 0 or 1.
                    _ => typed!(u8, $combine),
                }
            };
        }
        match $call.attrs.expect_str("reduction") {
            "add" => numbers!(Add),
            "mul" => numbers!(Mul),
            "max" => numbers!(Max),
            "min" => numbers!(Min),
            _ => match $call.output.dtype.size() {
                1 => typed!(u8, Replace),
                2 => typed!(u16, Replace),
                4 => typed!(u32, Replace),
                _ => typed!(u64, Replace),
            },
        }
    }};
}
pub(super) use with_combine;

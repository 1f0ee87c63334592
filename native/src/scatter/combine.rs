//! How an update is combined with the element at its position.

use super::super::args::Shared;
use super::super::scalar::Number;
use super::{Elements, along, combine_lines};
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

/// The loops over updates for one type of elements and one reduction, which are all that is compiled for each of them.
pub(super) struct Typed {
    /// The bytes of an element.
    pub size: usize,
    /// As [`along`].
    pub along: unsafe fn(&Elements, Shared<u8>, usize, *mut u8, *const u8, usize),
    /// Combines a line of updates with a line of the result, which must not overlap.
    pub line: unsafe fn(*mut u8, *const u8, usize),
}

impl Typed {
    fn new<T: bytemuck::Pod, C: Combine<T>>() -> Self {
        /// # Safety
        /// As for [`combine_lines`].
        unsafe fn line<T: bytemuck::Pod, C: Combine<T>>(to: *mut u8, from: *const u8, count: usize) {
            // SAFETY: as the caller promises.
            unsafe { combine_lines::<T, C>(to.cast(), from.cast(), count) };
        }
        Self { size: size_of::<T>(), along: along::<T, C>, line: line::<T, C> }
    }

    fn of_numbers<T: Number + bytemuck::Pod>(reduction: &str) -> Self {
        match reduction {
            "add" => Self::new::<T, Add>(),
            "mul" => Self::new::<T, Mul>(),
            "max" => Self::new::<T, Max>(),
            _ => Self::new::<T, Min>(),
        }
    }
}

/// Returns the loops for a call that [`takes`].
pub(super) fn typed(call: &Call<'_>) -> Typed {
    let reduction =
        if call.attrs.get("reduction").is_none() { "none" } else { call.attrs.expect_str("reduction") };
    let dtype = call.output.dtype;
    if reduction == "none" {
        return match dtype.size() {
            1 => Typed::new::<u8, Replace>(),
            2 => Typed::new::<u16, Replace>(),
            4 => Typed::new::<u32, Replace>(),
            _ => Typed::new::<u64, Replace>(),
        };
    }
    of_numbers(dtype, reduction)
}

/// Returns the loops for numbers of a type that has a scalar of its own.
pub(super) fn of_numbers(dtype: DType, reduction: &str) -> Typed {
    match dtype {
        DType::U16 => Typed::of_numbers::<u16>(reduction),
        DType::U32 => Typed::of_numbers::<u32>(reduction),
        DType::U64 => Typed::of_numbers::<u64>(reduction),
        DType::I8 => Typed::of_numbers::<i8>(reduction),
        DType::I16 => Typed::of_numbers::<i16>(reduction),
        DType::I32 => Typed::of_numbers::<i32>(reduction),
        DType::I64 => Typed::of_numbers::<i64>(reduction),
        DType::F32 => Typed::of_numbers::<f32>(reduction),
        DType::F64 => Typed::of_numbers::<f64>(reduction),
        // Booleans are 0 or 1.
        _ => Typed::of_numbers::<u8>(reduction),
    }
}

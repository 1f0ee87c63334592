//! Levels at the ends of rows: for kernels of other crates that compute in floats, but read levels, or write them.
//!
//! The floats and the levels are those of `native.dequantize` and `native.quantize`, to the last bit.

use super::levels::Levels;
use super::rounding::Rounding;
use crate::lanes::widened;
use ovolo::backend::{Args, Call};
use ovolo::tensor::DType;

/// Where the scales of levels are among the operands of a call. A zero point follows its scale; both have one element.
#[derive(Clone, Copy)]
pub struct Ends {
    source: Option<End>,
    target: End,
}

/// Levels: the position of their scale, and whether they have a sign.
#[derive(Clone, Copy)]
struct End {
    scale: usize,
    signed: bool,
}

impl End {
    /// # Safety
    /// The operands must be those of the call.
    unsafe fn numbers(self, args: &Args<'_>) -> (f32, f32) {
        // SAFETY: the scale and the zero point have one element each.
        unsafe {
            let zero = args.inputs[self.scale + 1];
            let zero = if self.signed { f32::from(*zero.cast::<i8>()) } else { f32::from(*zero) };
            (*args.inputs[self.scale].cast::<f32>(), zero)
        }
    }
}

impl Ends {
    /// Returns the ends of a call whose result is levels of the scale at position `target`. Operand 0 is levels of the scale
    /// at position `source`, if there is one.
    pub fn new(call: &Call<'_>, target: usize, source: usize) -> Self {
        let end = |scale: usize| End { scale, signed: call.inputs[scale + 1].dtype == DType::I8 };
        Self { source: (call.inputs.len() > source).then(|| end(source)), target: end(target) }
    }

    /// Returns whether operand 0 is levels, and not floats.
    pub fn reads_levels(&self) -> bool {
        self.source.is_some()
    }

    /// Reads the scales and the zero points of a run.
    ///
    /// # Safety
    /// The operands must be those of the call.
    pub unsafe fn start(&self, args: &Args<'_>) -> Started {
        // SAFETY: as the caller promises.
        unsafe {
            let (scale, zero) = self.target.numbers(args);
            let source = self.source.map(|end| (end.numbers(args), end.signed));
            Started { source, rounding: Rounding::new(scale, zero, self.target.signed) }
        }
    }
}

/// The ends of a run.
#[derive(Clone, Copy)]
pub struct Started {
    source: Option<((f32, f32), bool)>,
    rounding: Rounding,
}

impl Started {
    /// Writes the floats of some elements of operand 0, which begin at `from`, to a buffer.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub unsafe fn read(&self, from: *const u8, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.source {
                Some(((scale, zero), true)) => signed(from.cast(), scale, zero, to, count),
                Some(((scale, zero), false)) => unsigned(from, scale, zero, to, count),
                None => std::ptr::copy_nonoverlapping(from.cast::<f32>(), to, count),
            }
        }
    }

    /// Writes the levels of some floats.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub unsafe fn write(&self, from: *const f32, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.rounding.write(from, to, count) }
    }
}

widened! {
    /// Writes the floats of levels without a sign.
    unsafe fn unsigned(from: *const u8, scale: f32, zero: f32, to: *mut f32, count: usize) = unsigned_on;
}
widened! {
    /// Writes the floats of levels with a sign.
    unsafe fn signed(from: *const i8, scale: f32, zero: f32, to: *mut f32, count: usize) = signed_on;
}

#[inline(always)]
unsafe fn unsigned_on<V: Levels>(from: *const u8, scale: f32, zero: f32, to: *mut f32, count: usize) {
    // SAFETY: as the caller of `unsigned` promises.
    unsafe { floats_on(from, |from| V::of_u8(from), scale, zero, to, count) }
}

#[inline(always)]
unsafe fn signed_on<V: Levels>(from: *const i8, scale: f32, zero: f32, to: *mut f32, count: usize) {
    // SAFETY: as the caller of `signed` promises.
    unsafe { floats_on(from, |from| V::of_i8(from), scale, zero, to, count) }
}

/// Writes the floats of levels, which `load` reads. The last vector has some elements of the one before.
///
/// # Safety
/// All elements must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn floats_on<T: Copy + Default, V: Levels>(
    from: *const T,
    load: impl Fn(*const T) -> V,
    scale: f32,
    zero: f32,
    to: *mut f32,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let (scale, zero) = (V::splat(scale), V::splat(zero));
        if count < V::COUNT {
            let mut some = [T::default(); 16];
            std::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), count);
            load(some.as_ptr()).sub(zero).mul(scale).store_first(to, count);
            return;
        }
        let mut at = 0;
        while at < count {
            at = at.min(count - V::COUNT);
            load(from.add(at)).sub(zero).mul(scale).store(to.add(at));
            at += V::COUNT;
        }
    }
}

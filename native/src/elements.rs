//! Conversion of rows of elements to another type, for casts and for widened kernels.

use super::args::{Shared, part, tasks};
use super::lanes::Isa;
use super::scalar::{Scalar, with_scalar};
use ovolo::team::Team;
use ovolo::tensor::DType;

/// The elements that are read before any of them is written, so that the loops over them become vectors even where the
/// result may lie in place.
const BLOCK: usize = 32;

/// Converts a number of elements. Both sides may begin at the same address if elements have the same size.
type Row = unsafe fn(*const u8, *mut u8, usize);

/// A conversion from one type to another.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    row: Row,
    sizes: (usize, usize),
}

impl Conversion {
    /// Returns the conversion between types that have scalars.
    pub(super) fn new(from: DType, to: DType) -> Self {
        let row = match (from, to) {
            #[cfg(target_arch = "x86_64")]
            (DType::F16, DType::F32) if f16c::is_running() => f16c::widen as Row,
            #[cfg(target_arch = "x86_64")]
            (DType::F32, DType::F16) if f16c::is_running() => f16c::narrow as Row,
            _ => with_scalar!(from, A => with_scalar!(to, B => row::<A, B> as Row)),
        };
        Self { row, sizes: (from.size(), to.size()) }
    }

    /// Converts elements with the threads of a team.
    ///
    /// # Safety
    /// Both sides must have this number of elements of the types of this conversion. They must not overlap, unless they
    /// begin at the same address and the types have the same size.
    pub(super) unsafe fn run(&self, from: Shared<u8>, to: Shared<u8>, count: usize, team: &Team) {
        let parts = tasks(count, count.div_ceil(BLOCK), team.threads());
        team.run(parts, |index| {
            let range = part(count, parts, index, BLOCK);
            // SAFETY: as the caller promises; parts do not overlap.
            unsafe {
                (self.row)(
                    from.at(range.start * self.sizes.0),
                    to.at(range.start * self.sizes.1),
                    range.len(),
                );
            }
        });
    }
}

/// # Safety
/// As for [`Row`].
unsafe fn row<A: Scalar, B: Scalar>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => row_avx2::<A, B>(from, to, count),
            _ => row_on::<A, B>(from, to, count),
        }
    }
}

/// # Safety
/// As for [`Row`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn row_avx2<A: Scalar, B: Scalar>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { row_on::<A, B>(from, to, count) }
}

#[inline(always)]
unsafe fn row_on<A: Scalar, B: Scalar>(from: *const u8, to: *mut u8, count: usize) {
    let (from, to) = (from.cast::<A>(), to.cast::<B>());
    let whole = count / BLOCK * BLOCK;
    // SAFETY: as the caller promises.
    unsafe {
        for at in (0..whole).step_by(BLOCK) {
            let block = from.add(at).cast::<[A; BLOCK]>().read();
            let mut result = [B::zeroed(); BLOCK];
            for (result, element) in result.iter_mut().zip(&block) {
                *result = element.cast::<B>();
            }
            to.add(at).cast::<[B; BLOCK]>().write(result);
        }
        for at in whole..count {
            *to.add(at) = (*from.add(at)).cast::<B>();
        }
    }
}

/// Conversions of `f16` by the processor.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::super::lanes::Isa;
    use half::f16;
    use std::arch::x86_64::*;

    /// Returns whether the processor has instructions for them, and plans may use it.
    pub(super) fn is_running() -> bool {
        Isa::running() >= Isa::Avx2 && is_x86_feature_detected!("f16c")
    }

    /// # Safety
    /// As for [`super::Row`], from `f16` to `f32`.
    pub(super) unsafe fn widen(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function is chosen only where the processor has the instructions.
        unsafe { widen_on(from.cast(), to.cast(), count) }
    }

    /// # Safety
    /// As for [`super::Row`], from `f32` to `f16`.
    pub(super) unsafe fn narrow(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: as above.
        unsafe { narrow_on(from.cast(), to.cast(), count) }
    }

    #[target_feature(enable = "avx,f16c")]
    unsafe fn widen_on(from: *const f16, to: *mut f32, count: usize) {
        let whole = count / 8 * 8;
        // SAFETY: as the caller promises.
        unsafe {
            for at in (0..whole).step_by(8) {
                _mm256_storeu_ps(to.add(at), _mm256_cvtph_ps(_mm_loadu_si128(from.add(at).cast())));
            }
            for at in whole..count {
                *to.add(at) = (*from.add(at)).to_f32();
            }
        }
    }

    #[target_feature(enable = "avx,f16c")]
    unsafe fn narrow_on(from: *const f32, to: *mut f16, count: usize) {
        let whole = count / 8 * 8;
        // SAFETY: as the caller promises.
        unsafe {
            for at in (0..whole).step_by(8) {
                let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.add(at)));
                _mm_storeu_si128(to.add(at).cast(), narrow);
            }
            for at in whole..count {
                *to.add(at) = f16::from_f32(*from.add(at));
            }
        }
    }
}

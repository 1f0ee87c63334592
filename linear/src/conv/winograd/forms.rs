//! The transforms of Winograd's algorithm, compiled for each instruction set and kind of tile.

use super::transform::{Store, Strip, gather, scatter};
use crate::lanes::Isa;
use ovolo::op::winograd::Axis;

type Scatter = unsafe fn(&Strip, *const f32);
type Gather = unsafe fn(&Strip, &Store);

/// The functions for one block size and one kind of tile.
pub(super) struct Transforms {
    pub scatter: Scatter,
    pub gather: Gather,
}

impl Transforms {
    /// Returns the functions for blocks of `block` channels and tiles of these axes; `None` if there are none.
    pub fn new(block: usize, axes: [Axis; 2]) -> Option<Self> {
        match (Isa::planned(), block) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, 16) => wide::set(axes),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, _) => narrow::set(axes),
            _ => portable::set(axes),
        }
    }
}

/// Defines a module with the functions of one instruction set.
macro_rules! module {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As for [`super::scatter`].
            $(#[$feature])?
            unsafe fn to<const R: usize, const C: usize>(strip: &Strip, plane: *const f32) {
                // SAFETY: as the caller promises.
                unsafe { scatter::<$lanes, R, C>(strip, plane) }
            }

            /// # Safety
            /// As for [`super::gather`].
            $(#[$feature])?
            unsafe fn from<const R: usize, const C: usize, const M: usize, const N: usize>(
                strip: &Strip,
                store: &Store,
            ) {
                // SAFETY: as the caller promises.
                unsafe { gather::<$lanes, R, C, M, N>(strip, store) }
            }

            pub(super) fn set(axes: [Axis; 2]) -> Option<Transforms> {
                let forms = axes.map(|axis| (axis.taps, axis.tile));
                let (scatter, gather): (Scatter, Gather) = match forms {
                    [(3, 2), (3, 2)] => (to::<4, 4>, from::<4, 4, 2, 2>),
                    [(3, 4), (3, 4)] => (to::<6, 6>, from::<6, 6, 4, 4>),
                    [(1, 1), (3, 4)] => (to::<1, 6>, from::<1, 6, 1, 4>),
                    [(3, 4), (1, 1)] => (to::<6, 1>, from::<6, 1, 4, 1>),
                    [(5, 4), (5, 4)] => (to::<8, 8>, from::<8, 8, 4, 4>),
                    [(1, 1), (7, 4)] => (to::<1, 10>, from::<1, 10, 1, 4>),
                    [(7, 4), (1, 1)] => (to::<10, 1>, from::<10, 1, 4, 1>),
                    _ => return None,
                };
                Some(Transforms { scatter, gather })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
module!(
    wide, std::arch::x86_64::__m512,
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
module!(
    narrow, std::arch::x86_64::__m256,
    #[target_feature(enable = "avx2,fma")]
);
module!(portable, [f32; 8],);

//! The functions of Winograd's algorithm, compiled for each instruction set and form of tiles.

use super::product::{Product, ROWS_256, ROWS_512, product};
use super::transform::{Store, Strip, gather, scatter};
use crate::backend::native::lanes::Isa;
use crate::op::winograd::Axis;

/// The functions for one width of blocks and one form of tiles.
pub(super) struct Set {
    pub scatter: unsafe fn(&Strip, *const f32),
    pub gather: unsafe fn(&Strip, &Store),
    /// By tiles and blocks of outputs.
    product: fn(usize, usize) -> unsafe fn(&Product),
    /// The most tiles of a product.
    pub rows: usize,
}

impl Set {
    /// The functions for blocks of so many channels and tiles of these axes; `None` where there are none.
    pub fn new(block: usize, axes: [Axis; 2]) -> Option<Self> {
        match (Isa::planned(), block) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, 16) => wide::set(axes),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, _) => narrow::set(axes),
            _ => portable::set(axes),
        }
    }

    /// Computes sums of up to [`Set::rows`] tiles and two blocks of outputs.
    ///
    /// # Safety
    /// All that the product names is in bounds.
    pub unsafe fn product(&self, product: &Product, rows: usize, blocks: usize) {
        // SAFETY: as the caller promises; the instruction set is the processor's.
        unsafe { (self.product)(rows, blocks)(product) }
    }
}

/// Writes a module with the functions of one instruction set.
macro_rules! module {
    ($name:ident, $lanes:ty, $rows:expr, [$($p:literal),*], $(#[$feature:meta])?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`super::scatter`].
            $(#[$feature])?
            unsafe fn to<const R: usize, const C: usize>(strip: &Strip, plane: *const f32) {
                // SAFETY: as the caller promises.
                unsafe { scatter::<$lanes, R, C>(strip, plane) }
            }

            /// # Safety
            /// As [`super::gather`].
            $(#[$feature])?
            unsafe fn from<const R: usize, const C: usize, const M: usize, const N: usize>(
                strip: &Strip,
                store: &Store,
            ) {
                // SAFETY: as the caller promises.
                unsafe { gather::<$lanes, R, C, M, N>(strip, store) }
            }

            /// # Safety
            /// As [`super::product`].
            $(#[$feature])?
            unsafe fn sums<const R: usize, const O: usize>(one: &Product) {
                // SAFETY: as the caller promises.
                unsafe { product::<$lanes, R, O>(one) }
            }

            fn pick(rows: usize, blocks: usize) -> unsafe fn(&Product) {
                match (rows, blocks) {
                    $(($p, 1) => sums::<$p, 1>, ($p, _) => sums::<$p, 2>,)*
                    _ => unreachable!("a product has as many tiles as fit into registers"),
                }
            }

            pub(super) fn set(axes: [Axis; 2]) -> Option<Set> {
                type Transforms = (unsafe fn(&Strip, *const f32), unsafe fn(&Strip, &Store));
                let (scatter, gather): Transforms = match axes.map(|axis| (axis.taps, axis.tile)) {
                    [(3, 2), (3, 2)] => (to::<4, 4>, from::<4, 4, 2, 2>),
                    [(3, 4), (3, 4)] => (to::<6, 6>, from::<6, 6, 4, 4>),
                    [(1, 1), (3, 4)] => (to::<1, 6>, from::<1, 6, 1, 4>),
                    [(3, 4), (1, 1)] => (to::<6, 1>, from::<6, 1, 4, 1>),
                    [(5, 4), (5, 4)] => (to::<8, 8>, from::<8, 8, 4, 4>),
                    [(1, 1), (7, 4)] => (to::<1, 10>, from::<1, 10, 1, 4>),
                    [(7, 4), (1, 1)] => (to::<10, 1>, from::<10, 1, 4, 1>),
                    _ => return None,
                };
                Some(Set { scatter, gather, product: pick, rows: $rows })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
module!(
    wide, std::arch::x86_64::__m512, ROWS_512, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
module!(
    narrow, std::arch::x86_64::__m256, ROWS_256, [1, 2, 3, 4, 5, 6],
    #[target_feature(enable = "avx2,fma")]
);
module!(portable, [f32; 8], ROWS_256, [1, 2, 3, 4, 5, 6],);

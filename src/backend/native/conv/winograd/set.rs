//! The functions of Winograd's algorithm, compiled for each instruction set and tile size.

use super::product::{Product, ROWS_256, ROWS_512, product};
use super::transform::{Store, Strip, gather, scatter};
use crate::backend::native::lanes::Isa;

/// The functions for one width of blocks and one tile size.
pub(super) struct Set {
    pub scatter: unsafe fn(&Strip, *const f32),
    pub gather: unsafe fn(&Strip, &Store),
    /// By tiles and blocks of outputs.
    product: fn(usize, usize) -> unsafe fn(&Product),
    /// The most tiles of a product.
    pub rows: usize,
}

impl Set {
    /// The functions for blocks of so many channels and tiles of `size` by `size` inputs.
    pub fn new(block: usize, size: usize) -> Self {
        match (Isa::planned(), block) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, 16) => wide::set(size),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, _) => narrow::set(size),
            _ => portable::set(size),
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
            unsafe fn to<const S: usize>(strip: &Strip, plane: *const f32) {
                // SAFETY: as the caller promises.
                unsafe { scatter::<$lanes, S>(strip, plane) }
            }

            /// # Safety
            /// As [`super::gather`].
            $(#[$feature])?
            unsafe fn from<const S: usize>(strip: &Strip, store: &Store) {
                // SAFETY: as the caller promises.
                unsafe { gather::<$lanes, S>(strip, store) }
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

            pub(super) fn set(size: usize) -> Set {
                let (scatter, gather): (unsafe fn(&Strip, *const f32), unsafe fn(&Strip, &Store)) = match size {
                    4 => (to::<4>, from::<4>),
                    _ => (to::<6>, from::<6>),
                };
                Set { scatter, gather, product: pick, rows: $rows }
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

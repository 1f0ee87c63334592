//! Products of a few rows by a matrix that is read once, as fast as it comes from memory.
//!
//! A processor prefetches where addresses ascend. If it reads several such sequences at the same time, more lines are on
//! their way from memory. So four rows of a plain matrix are read side by side, each over as many columns as the
//! first-level cache can hold results for, and up to four panels of a packed matrix. The order of the sums over the inner
//! dimension does not depend on the number of columns of a tile, and so not on the number of threads.

use super::gemm::{Function, PANEL, Tile};
use super::lanes::{Isa, Lanes};
use super::prefetch::prefetch;

/// The elements of the result in a tile of a plain matrix: 16 KiB.
pub(super) const RESULT: usize = 4096;
/// The panels of the widest tile of a packed matrix.
pub(super) const PANELS: usize = 4;
/// The rows of a plain matrix that are read side by side.
const ROWS: usize = 4;
/// The rows of a panel before which a row is requested.
const REQUESTED: usize = 6;

/// The functions for 1, 2, … rows.
#[derive(Clone, Copy)]
pub(super) struct Few {
    /// By a plain matrix of any number of columns.
    pub plain: &'static [Function],
    /// By up to [`PANELS`] panels of a packed matrix.
    pub packed: &'static [Function],
}

impl Few {
    /// Returns the functions for an instruction set.
    pub fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self { plain: x86::PLAIN512, packed: x86::PACKED512 },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self { plain: x86::PLAIN256, packed: x86::PACKED256 },
            _ => Self { plain: PORTABLE, packed: &[] },
        }
    }
}

/// Computes `R` rows by a plain matrix.
///
/// # Safety
/// The matrices must be in bounds, and `c` must not overlap the others; the processor must have the instruction set of
/// `V`.
#[inline(always)]
unsafe fn plain<V: Lanes, const R: usize>(tile: &Tile) {
    let fresh = !tile.accumulate;
    // SAFETY: the rows are within the matrices.
    unsafe {
        if fresh && tile.depth < ROWS {
            for r in 0..R {
                std::ptr::write_bytes(tile.c.add(r * tile.c_stride), 0, tile.columns);
            }
        }
        let whole = tile.depth / ROWS * ROWS;
        for i in (0..whole).step_by(ROWS) {
            if fresh && i == 0 {
                rows::<V, R, ROWS, true>(tile, i);
            } else {
                rows::<V, R, ROWS, false>(tile, i);
            }
        }
        for i in whole..tile.depth {
            rows::<V, R, 1, false>(tile, i);
        }
    }
}

/// Adds `N` rows of the right operand, from row `i` on, times their factors. If `FRESH`, nothing is in `c` yet.
///
/// # Safety
/// As for [`plain`], and the rows must be within the matrix.
#[inline(always)]
unsafe fn rows<V: Lanes, const R: usize, const N: usize, const FRESH: bool>(tile: &Tile, i: usize) {
    // SAFETY: loads and stores are within the rows and columns that the caller promises.
    unsafe {
        let mut factors = [[V::splat(0.0); N]; R];
        for (r, factors) in factors.iter_mut().enumerate() {
            for (n, factor) in factors.iter_mut().enumerate() {
                *factor = V::splat(*tile.a.add(r * tile.a_stride + i + n));
            }
        }
        let b = tile.b.add(i * tile.b_stride);
        let mut column = 0;
        while column + V::COUNT <= tile.columns {
            let mut right = [V::splat(0.0); N];
            for (n, right) in right.iter_mut().enumerate() {
                *right = V::load(b.add(n * tile.b_stride + column));
            }
            for (r, factors) in factors.iter().enumerate() {
                let to = tile.c.add(r * tile.c_stride + column);
                let mut sum = if FRESH { V::splat(0.0) } else { V::load(to) };
                for (factor, right) in factors.iter().zip(right) {
                    sum = factor.mul_add(right, sum);
                }
                sum.store(to);
            }
            column += V::COUNT;
        }
        let rest = tile.columns - column;
        if rest > 0 {
            for (r, factors) in factors.iter().enumerate() {
                let to = tile.c.add(r * tile.c_stride + column);
                let mut sum = if FRESH { V::splat(0.0) } else { V::load_first(to, rest) };
                for (n, factor) in factors.iter().enumerate() {
                    sum = factor.mul_add(V::load_first(b.add(n * tile.b_stride + column), rest), sum);
                }
                sum.store_first(to, rest);
            }
        }
    }
}

/// Computes `R` rows by up to [`PANELS`] panels, at most `P` of them at a time. A panel has `C` vectors.
///
/// # Safety
/// As for [`plain`].
#[inline(always)]
unsafe fn packed<V: Lanes, const R: usize, const P: usize, const C: usize>(tile: &Tile) {
    let mut panel = 0;
    let panels = tile.columns.div_ceil(PANEL);
    // SAFETY: the caller's promise.
    unsafe {
        while panel < panels {
            panel += match (panels - panel).min(P) {
                4 => several::<V, R, 4, C>(tile, panel),
                3 => several::<V, R, 3, C>(tile, panel),
                2 => several::<V, R, 2, C>(tile, panel),
                _ => several::<V, R, 1, C>(tile, panel),
            };
        }
    }
}

/// Computes `R` rows by `P` panels from this one on, and returns `P`.
///
/// # Safety
/// As for [`plain`], and there must be as many panels.
#[inline(always)]
unsafe fn several<V: Lanes, const R: usize, const P: usize, const C: usize>(
    tile: &Tile,
    panel: usize,
) -> usize {
    // SAFETY: loads are within the rows and the panels, which have all their columns, and stores within the columns.
    unsafe {
        let mut sums = [[[V::splat(0.0); C]; P]; R];
        let b: [*const f32; P] = std::array::from_fn(|p| tile.b.add((panel + p) * tile.depth * PANEL));
        for i in 0..tile.depth {
            let mut factors = [V::splat(0.0); R];
            for (r, factor) in factors.iter_mut().enumerate() {
                *factor = V::splat(*tile.a.add(r * tile.a_stride + i));
            }
            for (p, b) in b.iter().enumerate() {
                let row = b.add(i * PANEL);
                for line in (0..PANEL).step_by(16) {
                    prefetch(row.wrapping_add(REQUESTED * PANEL + line).cast());
                }
                let right: [V; C] = std::array::from_fn(|c| V::load(row.add(c * V::COUNT)));
                for (sums, factor) in sums.iter_mut().zip(factors) {
                    for (sum, right) in sums[p].iter_mut().zip(right) {
                        *sum = factor.mul_add(right, *sum);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (at, sum) in sums.as_flattened().iter().enumerate() {
                let column = panel * PANEL + at * V::COUNT;
                let width = tile.columns.saturating_sub(column).min(V::COUNT);
                let to = tile.c.wrapping_add(r * tile.c_stride + column);
                let sum = if tile.accumulate { sum.add(V::load_first(to, width)) } else { *sum };
                sum.store_first(to, width);
            }
        }
    }
    P
}

/// # Safety
/// As for [`plain`].
unsafe fn portable<const R: usize>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { plain::<[f32; 8], R>(tile) }
}

const PORTABLE: &[Function] = &[portable::<1>, portable::<2>, portable::<3>, portable::<4>];

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Function, Tile, packed, plain};
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// As for [`plain`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,fma")]
    unsafe fn plain512<const R: usize>(tile: &Tile) {
        // SAFETY: as the caller promises.
        unsafe { plain::<__m512, R>(tile) }
    }

    /// # Safety
    /// As for [`plain`]; the processor must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn plain256<const R: usize>(tile: &Tile) {
        // SAFETY: as the caller promises.
        unsafe { plain::<__m256, R>(tile) }
    }

    /// # Safety
    /// As for [`plain`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,fma")]
    unsafe fn packed512<const R: usize, const P: usize>(tile: &Tile) {
        // SAFETY: as the caller promises.
        unsafe { packed::<__m512, R, P, 2>(tile) }
    }

    /// # Safety
    /// As for [`plain`]; the processor must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn packed256<const R: usize, const P: usize>(tile: &Tile) {
        // SAFETY: as the caller promises.
        unsafe { packed::<__m256, R, P, 4>(tile) }
    }

    pub(super) const PLAIN512: &[Function] = &[plain512::<1>, plain512::<2>, plain512::<3>, plain512::<4>];
    pub(super) const PLAIN256: &[Function] =
        &[plain256::<1>, plain256::<2>, plain256::<3>, plain256::<4>, plain256::<5>, plain256::<6>];
    /// As many panels at a time as there are registers for their sums.
    pub(super) const PACKED512: &[Function] = &[
        packed512::<1, 4>,
        packed512::<2, 4>,
        packed512::<3, 4>,
        packed512::<4, 3>,
        packed512::<5, 2>,
        packed512::<6, 2>,
        packed512::<7, 1>,
        packed512::<8, 1>,
    ];
    pub(super) const PACKED256: &[Function] = &[packed256::<1, 2>, packed256::<2, 1>];
}

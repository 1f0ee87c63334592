//! The matrix-product engine: tiles of a few rows by up to 32 columns, held in registers.
//!
//! The right operand is read in rows of 32 columns, with any distance between rows: a panel of the layout `Ba32b`, or
//! 32 columns of a plain matrix. The left operand is read element by element. The order of the sums over k does not
//! depend on the number of threads.

use super::args::split;
use super::lanes::{Isa, Lanes};
use super::prefetch::Prefetch;

/// The columns of a panel.
pub(super) const PANEL: usize = 32;

/// The steps that share the computation of addresses, with vectors of eight.
const STEPS: usize = 4;

/// One tile: `c[r, j] = sum over i of a[r, i] * b[i, j]`, or the same added to `c`.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub a: *const f32,
    /// The distance between rows of `a`, in elements.
    pub a_stride: usize,
    pub b: *const f32,
    /// The distance between rows of `b`, in elements.
    pub b_stride: usize,
    pub c: *mut f32,
    /// The distance between rows of `c`, in elements.
    pub c_stride: usize,
    /// The columns of `a` and rows of `b`.
    pub depth: usize,
    /// The columns of `b` and `c`: up to [`PANEL`], or more for a few rows.
    pub columns: usize,
    /// Whether to add to `c`.
    pub accumulate: bool,
    /// What the next block will read as `b`, unless it is the same `b`.
    pub ahead: Prefetch,
}

pub(super) type Function = unsafe fn(&Tile);

/// The tile functions of one instruction set, for 1, 2, … rows.
pub(super) struct Micro {
    pub(super) functions: &'static [Function],
    /// The name of the instruction set, for contracts.
    pub(super) name: &'static str,
}

/// Returns the engine for the instruction set that plans are made for.
pub(super) fn micro() -> &'static Micro {
    match Isa::planned() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &Micro { functions: x86::AVX512, name: "avx512" },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &Micro { functions: x86::AVX2, name: "avx2" },
        _ => &Micro { functions: PORTABLE, name: "portable" },
    }
}

impl Micro {
    /// Computes a block of `rows` rows, divided into tiles of nearly equal height.
    ///
    /// # Safety
    /// The matrices of `block`, with this number of rows, must be in bounds, and `c` must not overlap the others.
    pub(super) unsafe fn block(&self, block: &Tile, rows: usize) {
        if rows <= self.functions.len() {
            if rows > 0 {
                // SAFETY: the processor has the instruction set.
                unsafe { self.functions[rows - 1](block) };
            }
            return;
        }
        let tiles = rows.div_ceil(self.functions.len());
        let ahead = block.ahead.among(tiles);
        for (index, part) in split(rows, tiles, 0..tiles).enumerate() {
            let tile = Tile {
                a: block.a.wrapping_add(part.start * block.a_stride),
                c: block.c.wrapping_add(part.start * block.c_stride),
                ahead: ahead.units(index, index + 1),
                ..*block
            };
            // SAFETY: the rows are within the block, and the processor has the instruction set.
            unsafe { self.functions[part.len() - 1](&tile) };
        }
    }

    /// Returns the rows of the tallest tile.
    pub(super) fn rows(&self) -> usize {
        self.functions.len()
    }
}

/// Computes a tile of `R` rows and `C` vectors. Each element has `U` partial sums, because with few independent sums
/// the multipliers would wait for each other's results.
///
/// # Safety
/// As for [`Micro::block`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const C: usize, const U: usize, const WHOLE: bool>(
    tile: &Tile,
    first: usize,
) {
    // The lanes in use of each vector of a row.
    let width = |c: usize| tile.columns.saturating_sub(first + c * V::COUNT).min(V::COUNT);
    // SAFETY: loads and stores are within the rows and columns that the caller promises.
    unsafe {
        let mut sums = [[[V::splat(0.0); C]; R]; U];
        let (a, b) = (tile.a, tile.b.add(first));
        let ahead = tile.ahead.over(tile.depth);
        let mut i = 0;
        if U == 1 && V::COUNT < 16 {
            // Vectors of eight need twice as many instructions as vectors of 16, so that addresses and requests would take
            // the place of multiplications in the cycles. Several steps share them.
            let rows: [*const f32; R] = std::array::from_fn(|r| a.wrapping_add(r * tile.a_stride));
            let mut row = b;
            while i + STEPS <= tile.depth {
                ahead.fetch_steps(i, STEPS);
                for step in 0..STEPS {
                    let mut columns = [V::splat(0.0); C];
                    for (c, column) in columns.iter_mut().enumerate() {
                        let at = row.wrapping_add(c * V::COUNT);
                        *column = if WHOLE { V::load(at) } else { V::load_first(at, width(c)) };
                    }
                    for (left, sums) in rows.iter().zip(&mut sums[0]) {
                        let left = V::splat(*left.add(i + step));
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = left.mul_add(column, *sum);
                        }
                    }
                    row = row.wrapping_add(tile.b_stride);
                }
                i += STEPS;
            }
        }
        while i + U <= tile.depth {
            ahead.fetch(i);
            for (u, sums) in sums.iter_mut().enumerate() {
                let row = b.add((i + u) * tile.b_stride);
                let mut columns = [V::splat(0.0); C];
                for (c, column) in columns.iter_mut().enumerate() {
                    let at = row.wrapping_add(c * V::COUNT);
                    *column = if WHOLE { V::load(at) } else { V::load_first(at, width(c)) };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let left = V::splat(*a.add(r * tile.a_stride + i + u));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = left.mul_add(column, *sum);
                    }
                }
            }
            i += U;
        }
        while i < tile.depth {
            let row = b.add(i * tile.b_stride);
            for c in 0..C {
                let at = row.wrapping_add(c * V::COUNT);
                let column = if WHOLE { V::load(at) } else { V::load_first(at, width(c)) };
                for (r, sums) in sums[0].iter_mut().enumerate() {
                    sums[c] = V::splat(*a.add(r * tile.a_stride + i)).mul_add(column, sums[c]);
                }
            }
            i += 1;
        }
        for r in 0..R {
            for c in 0..C {
                let mut sum = sums[0][r][c];
                for sums in &sums[1..] {
                    sum = sum.add(sums[r][c]);
                }
                let to = tile.c.wrapping_add(r * tile.c_stride + first + c * V::COUNT);
                if WHOLE {
                    V::store(if tile.accumulate { sum.add(V::load(to)) } else { sum }, to);
                } else {
                    let width = width(c);
                    sum = if tile.accumulate { sum.add(V::load_first(to, width)) } else { sum };
                    V::store_first(sum, to, width);
                }
            }
        }
    }
}

/// # Safety
/// As for [`Micro::block`].
unsafe fn portable<const R: usize>(whole: &Tile) {
    for first in (0..whole.columns).step_by(8) {
        // SAFETY: as the caller promises.
        unsafe {
            if whole.columns >= first + 8 {
                tile::<[f32; 8], R, 1, 1, true>(whole, first);
            } else {
                tile::<[f32; 8], R, 1, 1, false>(whole, first);
            }
        }
    }
}

pub(super) const PORTABLE: &[Function] = &[portable::<1>, portable::<2>, portable::<3>, portable::<4>];

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Function, Tile, tile};
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// As for [`super::Micro::block`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,fma")]
    unsafe fn avx512<const R: usize, const U: usize>(whole: &Tile) {
        // SAFETY: as the caller promises.
        unsafe {
            match whole.columns {
                32 => tile::<__m512, R, 2, U, true>(whole, 0),
                16 => tile::<__m512, R, 1, U, true>(whole, 0),
                0..16 => tile::<__m512, R, 1, U, false>(whole, 0),
                _ => tile::<__m512, R, 2, U, false>(whole, 0),
            }
        }
    }

    /// # Safety
    /// As for [`super::Micro::block`]; the processor must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<const R: usize, const U: usize>(whole: &Tile) {
        for first in (0..whole.columns).step_by(16) {
            // SAFETY: as the caller promises.
            unsafe {
                match whole.columns - first {
                    16.. => tile::<__m256, R, 2, U, true>(whole, first),
                    8 => tile::<__m256, R, 1, U, true>(whole, first),
                    0..8 => tile::<__m256, R, 1, U, false>(whole, first),
                    _ => tile::<__m256, R, 2, U, false>(whole, first),
                }
            }
        }
    }

    /// One row or two by a whole panel, whose rows are read once and in the order in which they lie in memory.
    ///
    /// # Safety
    /// As for [`super::Micro::block`]; the processor must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn panel<const R: usize, const U: usize>(whole: &Tile) {
        // SAFETY: as the caller promises.
        unsafe {
            match whole.columns {
                32 => tile::<__m256, R, 4, U, true>(whole, 0),
                _ => avx2::<R, U>(whole),
            }
        }
    }

    /// Tiles have up to 13 rows: with 14 the compiler keeps one sum in memory, which costs a sixth of the speed.
    pub(crate) const AVX512: &[Function] = &[
        avx512::<1, 4>,
        avx512::<2, 4>,
        avx512::<3, 2>,
        avx512::<4, 2>,
        avx512::<5, 1>,
        avx512::<6, 1>,
        avx512::<7, 1>,
        avx512::<8, 1>,
        avx512::<9, 1>,
        avx512::<10, 1>,
        avx512::<11, 1>,
        avx512::<12, 1>,
        avx512::<13, 1>,
    ];
    pub(crate) const AVX2: &[Function] =
        &[panel::<1, 2>, panel::<2, 1>, avx2::<3, 1>, avx2::<4, 1>, avx2::<5, 1>, avx2::<6, 1>];
}

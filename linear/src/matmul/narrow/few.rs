//! Products of a few rows whose weights become floats in registers.

use super::widen::{Bf16, F16, Halves, I8, JOINED, Kind, Stored, U8, Widen};
use super::{Factors, PANEL, Panel};
use crate::lanes::Isa;
use crate::prefetch::prefetch;

/// The most panels that are read side by side.
pub(super) const PANELS: usize = 4;
/// The bytes of a panel before which its bytes are requested: as many as are read while a request is on its way.
const REQUESTED: usize = 2048;

/// A product of some rows by some panels.
pub(super) struct Product {
    /// The rows, one after another.
    pub a: *const f32,
    /// The sum of each block's elements of each row.
    pub totals: *const f32,
    pub panels: [Panel; PANELS],
    pub depth: usize,
    /// The rows of the weights that share scales and zero points.
    pub block: usize,
    pub scales: Factors,
    pub points: Factors,
    /// The result, and the distance between its rows in elements.
    pub result: (*mut f32, usize),
    pub columns: usize,
}

type Function = unsafe fn(&Product);

/// The functions for one panel, and for the panels that there are registers for.
pub(super) struct Few {
    pub one: Function,
    pub several: Function,
    pub panels: usize,
}

impl Few {
    /// Returns the functions for so many rows, which are at most four.
    pub fn of(stored: Stored, rows: usize) -> Self {
        match Isa::planned() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::of512(stored, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if stored != Stored::F16 || is_x86_feature_detected!("f16c") => {
                x86::of256(stored, rows)
            }
            _ => portable(stored, rows),
        }
    }
}

/// Returns the sum of some elements, in the same order on every processor.
pub(super) fn total(elements: &[f32]) -> f32 {
    let mut lanes = [0.0; 16];
    let (whole, rest) = elements.as_chunks::<16>();
    for chunk in whole {
        for (sum, element) in lanes.iter_mut().zip(chunk) {
            *sum += element;
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// Multiplies `R` rows by `P` panels of `C` vectors. The order of the sums does not depend on the number of panels.
///
/// # Safety
/// Rows, panels and result must be in bounds; the processor must have the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn product<V: Widen, K: Kind, const R: usize, const P: usize, const C: usize>(product: &Product) {
    let Product { totals, panels, depth, block, scales, points, result: (result, stride), columns, .. } =
        *product;
    let blocks = depth.div_ceil(block);
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[[V::splat(0.0); C]; P]; R];
        for at in 0..blocks {
            let (first, end) = (at * block, ((at + 1) * block).min(depth));
            let mut parts = [[[V::splat(0.0); C]; P]; R];
            let whole = first + (end - first) / K::STEP * K::STEP;
            let mut row = first;
            while row < whole {
                rows::<V, K, R, P, C>(product, row, K::STEP, &mut parts);
                row += K::STEP;
            }
            if row < end {
                rows::<V, K, R, P, C>(product, row, end - row, &mut parts);
            }
            for p in 0..P {
                let load = |from: *const f32, factors: Factors, c: usize| match factors {
                    Factors::One => V::splat(*from),
                    Factors::Panels => V::load(from.add(at * PANEL + c * V::COUNT)),
                };
                for c in 0..C {
                    let (scale, point) =
                        (load(panels[p].scales, scales, c), load(panels[p].points, points, c));
                    for r in 0..R {
                        let total = V::splat(*totals.add(r * blocks + at));
                        let part = parts[r][p][c].sub(point.mul(total));
                        sums[r][p][c] = part.mul_add(scale, sums[r][p][c]);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (at, sum) in sums.as_flattened().iter().enumerate() {
                let column = at * V::COUNT;
                let width = columns.saturating_sub(column).min(V::COUNT);
                sum.store_first(result.wrapping_add(r * stride + column), width);
            }
        }
    }
}

/// Adds `count` rows of the weights from this one on, at most as many as are stored together, times their factors.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn rows<V: Widen, K: Kind, const R: usize, const P: usize, const C: usize>(
    product: &Product,
    row: usize,
    count: usize,
    parts: &mut [[[V; C]; P]; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let from: [*const u8; P] =
            std::array::from_fn(|p| product.panels[p].levels.add(row / K::STEP * K::ROW));
        for from in from {
            let mut line = 0;
            while line < K::ROW {
                prefetch(from.wrapping_add(REQUESTED + line));
                line += 64;
            }
        }
        let a = product.a.add(row);
        step::<V, K, R, P, C, 0>(product, a, from, count, parts);
        if K::STEP == JOINED {
            step::<V, K, R, P, C, 1>(product, a, from, count, parts);
            step::<V, K, R, P, C, 2>(product, a, from, count, parts);
            step::<V, K, R, P, C, 3>(product, a, from, count, parts);
            step::<V, K, R, P, C, 4>(product, a, from, count, parts);
            step::<V, K, R, P, C, 5>(product, a, from, count, parts);
            step::<V, K, R, P, C, 6>(product, a, from, count, parts);
            step::<V, K, R, P, C, 7>(product, a, from, count, parts);
        }
    }
}

/// Adds row `AT` of those that are stored together, if there are so many.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn step<V: Widen, K: Kind, const R: usize, const P: usize, const C: usize, const AT: u32>(
    product: &Product,
    a: *const f32,
    from: [*const u8; P],
    count: usize,
    parts: &mut [[[V; C]; P]; R],
) {
    if AT as usize >= count {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let factors: [V; R] = std::array::from_fn(|r| V::splat(*a.add(r * product.depth + AT as usize)));
        for p in 0..P {
            for c in 0..C {
                let level = K::vector::<V, AT>(from[p], c);
                for r in 0..R {
                    parts[r][p][c] = factors[r].mul_add(level, parts[r][p][c]);
                }
            }
        }
    }
}

/// # Safety
/// As for [`product`].
unsafe fn product_portable<K: Kind, const R: usize>(of: &Product) {
    // SAFETY: the caller's promise.
    unsafe { product::<[f32; 8], K, R, 1, 4>(of) }
}

/// Picks a function by the stored elements and the number of rows.
macro_rules! pick {
    ($stored:expr, $rows:expr, $function:ident $(, $panels:expr)*) => {
        match $stored {
            Stored::I8 => pick!(@rows I8, $rows, $function $(, $panels)*),
            Stored::U8 => pick!(@rows U8, $rows, $function $(, $panels)*),
            Stored::F16 => pick!(@rows F16, $rows, $function $(, $panels)*),
            Stored::BF16 => pick!(@rows Bf16, $rows, $function $(, $panels)*),
            Stored::Halves => pick!(@rows Halves, $rows, $function $(, $panels)*),
        }
    };
    (@rows $kind:ident, $rows:expr, $function:ident) => {
        match $rows {
            1 => $function::<$kind, 1>,
            2 => $function::<$kind, 2>,
            3 => $function::<$kind, 3>,
            _ => $function::<$kind, 4>,
        }
    };
    (@rows $kind:ident, $rows:expr, $function:ident, $one:expr, $two:expr, $three:expr, $four:expr) => {
        match $rows {
            1 => $function::<$kind, 1, $one>,
            2 => $function::<$kind, 2, $two>,
            3 => $function::<$kind, 3, $three>,
            _ => $function::<$kind, 4, $four>,
        }
    };
}

fn portable(stored: Stored, rows: usize) -> Few {
    let one: Function = pick!(stored, rows, product_portable);
    Few { one, several: one, panels: 1 }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bf16, F16, Few, Function, Halves, I8, Kind, Product, Stored, U8, product};
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// As for [`product`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,fma")]
    unsafe fn product512<K: Kind, const R: usize, const P: usize>(of: &Product) {
        // SAFETY: the caller's promise.
        unsafe { product::<__m512, K, R, P, 2>(of) }
    }

    /// # Safety
    /// As for [`product`]; the processor must have AVX2, FMA and F16C.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn product256<K: Kind, const R: usize, const P: usize>(of: &Product) {
        // SAFETY: the caller's promise.
        unsafe { product::<__m256, K, R, P, 4>(of) }
    }

    /// For each number of rows, as many panels as there are registers for two sums of each of their columns.
    const SEVERAL: [usize; 4] = [4, 2, 2, 1];

    pub(super) fn of512(stored: Stored, rows: usize) -> Few {
        let one: Function = pick!(stored, rows, product512, 1, 1, 1, 1);
        let several: Function =
            pick!(stored, rows, product512, { SEVERAL[0] }, { SEVERAL[1] }, { SEVERAL[2] }, { SEVERAL[3] });
        Few { one, several, panels: SEVERAL[rows - 1] }
    }

    pub(super) fn of256(stored: Stored, rows: usize) -> Few {
        let one: Function = pick!(stored, rows, product256, 1, 1, 1, 1);
        Few { one, several: one, panels: 1 }
    }
}

//! Tiles of the products: some rows of a sum by two blocks of columns, taken to up to two quarters of the
//! result as they leave the registers.

use crate::backend::native::lanes::{Lanes, prefetch};

/// How a product goes to a quarter of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To no other.
    None,
    /// As the first.
    Set,
    Add,
    Subtract,
}

/// The quarters that a product is part of and how it goes there, when those that have `begun` hold sums.
pub(super) fn ways(factors: &[f64; 4], begun: &mut [bool; 4]) -> [(usize, Way); 2] {
    let mut ways = [(0, Way::None); 2];
    let parts = factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
    for (to, (quarter, factor)) in ways.iter_mut().zip(parts) {
        let way = match (begun[quarter], *factor > 0.0) {
            (false, _) => Way::Set,
            (true, true) => Way::Add,
            (true, false) => Way::Subtract,
        };
        begun[quarter] = true;
        *to = (quarter, way);
    }
    ways
}

/// A tile, or a block of them. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The sum of the left operand at the first row, and between its blocks of lanes.
    pub v: *const f32,
    pub v_block: usize,
    /// Elements of a row.
    pub depth: usize,
    /// The weights of the first block of columns, and between blocks.
    pub u: *const f32,
    pub u_block: usize,
    /// Weights that are needed after these; their second block is as far from the first.
    pub ahead: *const f32,
    /// Two quarters of the result at the first row, in rows of two blocks.
    pub to: [*mut f32; 2],
    pub ways: [Way; 2],
}

type Function = unsafe fn(&Tile);

/// The functions of one instruction set.
pub(super) struct Set {
    /// By rows less one, for one block of columns and for two.
    functions: [&'static [Function]; 2],
    lanes: usize,
}

impl Set {
    /// Those of blocks of 16 columns.
    #[cfg(target_arch = "x86_64")]
    pub fn wide() -> Self {
        wide::set()
    }

    /// Those of blocks of 16 columns, of which there are none.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn wide() -> Self {
        portable::set()
    }

    /// Those of blocks of 8 columns.
    pub fn narrow() -> Self {
        match super::Isa::planned() {
            #[cfg(target_arch = "x86_64")]
            super::Isa::Avx512 | super::Isa::Avx2 => narrow::set(),
            _ => portable::set(),
        }
    }

    /// The most rows of a tile.
    pub fn rows(&self) -> usize {
        self.functions[0].len()
    }

    /// Computes so many rows of one or two blocks of columns, in tiles of nearly equal height.
    ///
    /// # Safety
    /// All that the tile names is in bounds.
    pub unsafe fn block(&self, tile: &Tile, rows: usize, blocks: usize) {
        let tiles = rows.div_ceil(self.rows());
        for index in 0..tiles {
            let (first, end) = (rows * index / tiles, rows * (index + 1) / tiles);
            let one = Tile {
                v: tile.v.wrapping_add(first * self.lanes),
                to: tile.to.map(|to| to.wrapping_add(first * 2 * self.lanes)),
                // Each of the first tiles asks for one block; those after for what is there.
                ahead: match index {
                    0 => tile.ahead,
                    1 => tile.ahead.wrapping_add(tile.u_block),
                    _ => tile.u,
                },
                ..*tile
            };
            // SAFETY: rows within the block; the instruction set is the processor's.
            unsafe { self.functions[blocks - 1][end - first - 1](&one) };
        }
    }
}

/// A tile of `R` rows and `C` blocks of columns.
///
/// # Safety
/// As [`Set::block`]; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const C: usize>(tile: &Tile) {
    let width = V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        let (mut u, mut ahead, mut block) = (tile.u, tile.ahead, tile.v);
        let mut left = tile.depth;
        while left > 0 {
            let lanes = left.min(width);
            let mut v = block;
            for _ in 0..lanes {
                let mut weights = [V::splat(0.0); C];
                for (column, weight) in weights.iter_mut().enumerate() {
                    *weight = V::load(u.add(column * tile.u_block));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = V::splat(*v.add(row * width));
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = value.mul_add(weight, *sum);
                    }
                }
                prefetch(ahead);
                ahead = ahead.wrapping_add(width);
                u = u.add(width);
                v = v.add(1);
            }
            left -= lanes;
            block = block.wrapping_add(tile.v_block);
        }
        for (to, way) in tile.to.into_iter().zip(tile.ways) {
            if way == Way::None {
                continue;
            }
            for (row, sums) in sums.iter().enumerate() {
                for (column, sum) in sums.iter().enumerate() {
                    let to = to.add((2 * row + column) * width);
                    let value = match way {
                        Way::Add => V::load(to).add(*sum),
                        Way::Subtract => V::load(to).sub(*sum),
                        _ => *sum,
                    };
                    value.store(to);
                }
            }
        }
    }
}

/// Writes a module with the functions of one instruction set.
macro_rules! module {
    ($name:ident, $lanes:ty, [$($rows:literal),*], $(#[$feature:meta])?) => {
        mod $name {
            use super::{Function, Lanes, Set, Tile, tile};

            /// # Safety
            /// As [`super::tile`].
            $(#[$feature])?
            unsafe fn run<const R: usize, const C: usize>(one: &Tile) {
                // SAFETY: as the caller promises.
                unsafe { tile::<$lanes, R, C>(one) }
            }

            pub(super) fn set() -> Set {
                const ONE: &[Function] = &[$(run::<$rows, 1>),*];
                const TWO: &[Function] = &[$(run::<$rows, 2>),*];
                Set { functions: [ONE, TWO], lanes: <$lanes as Lanes>::COUNT }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
module!(
    wide, std::arch::x86_64::__m512, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
module!(
    narrow, std::arch::x86_64::__m256, [1, 2, 3, 4, 5, 6],
    #[target_feature(enable = "avx2,fma")]
);
module!(portable, [f32; 8], [1, 2, 3, 4, 5, 6],);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::strassen::PRODUCTS;

    #[test]
    fn every_quarter_is_set_once_and_then_added_to() {
        let mut begun = [false; 4];
        let mut set = [0; 4];
        for product in &PRODUCTS {
            let parts = product.result.iter().filter(|factor| **factor != 0.0).count();
            let ways = ways(&product.result, &mut begun);
            // A tile goes to two quarters at most, and the first part of a quarter is not negated.
            assert_eq!(ways.iter().filter(|(_, way)| *way != Way::None).count(), parts);
            for (quarter, way) in ways {
                if way == Way::Set {
                    set[quarter] += 1;
                    assert_eq!(product.result[quarter], 1.0);
                }
            }
        }
        assert_eq!(set, [1; 4]);
    }
}

//! Products of a block of rows, laid out in blocks of lanes, with blocks of columns: those of Winograd's and of
//! Strassen's algorithm.
//!
//! Rows lie in blocks of elements, so that every row of a block is a fixed distance from one address and costs no
//! register of its own. A product goes to one matrix or two, as it leaves the registers.

use super::lanes::{Isa, Lanes, prefetch};
use ovolo::op::OpError;

/// How a product goes to a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To none.
    None,
    /// As the first.
    Set,
    Add,
    Subtract,
}

/// A product, or a tile of it. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// The left operand at the first row, and between its blocks of lanes.
    pub v: *const f32,
    pub v_block: usize,
    /// Elements of a row.
    pub depth: usize,
    /// The weights of the first block of columns, and between blocks.
    pub u: *const f32,
    pub u_block: usize,
    /// Weights that are needed after these, asked for as these are used; blocks are as far apart.
    pub ahead: *const f32,
    /// The matrices at the first row and block of columns, and how the product goes there.
    pub to: [*mut f32; 2],
    pub ways: [Way; 2],
    /// Between their rows, and between their blocks of columns.
    pub row: usize,
    pub column: usize,
}

type Function = unsafe fn(&Product, [*const f32; 2]);

/// The functions of one instruction set.
pub(super) struct Set {
    /// By rows less one, for one block of columns and for two.
    functions: [&'static [Function]; 2],
    lanes: usize,
}

impl Set {
    /// Those of blocks of so many lanes; an error where the processor has none.
    pub fn new(lanes: usize) -> Result<Self, OpError> {
        match (Isa::planned(), lanes) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, 16) => Ok(wide::set()),
            (_, 16) => Err(OpError::kernel("blocks of 16 need AVX-512")),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, _) => Ok(narrow::set()),
            _ => Ok(portable::set()),
        }
    }

    /// The most rows of a tile.
    pub fn rows(&self) -> usize {
        self.functions[0].len()
    }

    /// Computes so many rows of one or two blocks of columns, in tiles of nearly equal height.
    ///
    /// # Safety
    /// All that the product names is in bounds.
    pub unsafe fn run(&self, product: &Product, rows: usize, blocks: usize) {
        let tiles = rows.div_ceil(self.rows());
        let (first_ahead, second_ahead) = (product.ahead, product.ahead.wrapping_add(product.u_block));
        for index in 0..tiles {
            let (first, end) = (rows * index / tiles, rows * (index + 1) / tiles);
            let tile = Product {
                v: product.v.wrapping_add(first * self.lanes),
                to: product.to.map(|to| to.wrapping_add(first * product.row)),
                ..*product
            };
            // The first tiles ask for what is next; those after for what is there.
            let ahead = match (tiles, index) {
                (1, _) => [first_ahead, second_ahead],
                (_, 0) => [first_ahead, product.u],
                (_, 1) => [product.u, second_ahead],
                _ => [product.u; 2],
            };
            // SAFETY: rows within the block; the instruction set is the processor's.
            unsafe { self.functions[blocks - 1][end - first - 1](&tile, ahead) };
        }
    }
}

/// A tile of `R` rows and `C` blocks of columns.
///
/// # Safety
/// As [`Set::run`]; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const C: usize>(one: &Product, mut ahead: [*const f32; 2]) {
    let width = V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        let (mut u, mut block) = (one.u, one.v);
        let mut left = one.depth;
        while left > 0 {
            let lanes = left.min(width);
            let mut v = block;
            for _ in 0..lanes {
                let mut weights = [V::splat(0.0); C];
                for (column, weight) in weights.iter_mut().enumerate() {
                    *weight = V::load(u.add(column * one.u_block));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = V::splat(*v.add(row * width));
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = value.mul_add(weight, *sum);
                    }
                }
                for line in &mut ahead {
                    prefetch(*line);
                    *line = line.wrapping_add(width);
                }
                u = u.add(width);
                v = v.add(1);
            }
            left -= lanes;
            block = block.wrapping_add(one.v_block);
        }
        for (to, way) in one.to.into_iter().zip(one.ways) {
            if way == Way::None {
                continue;
            }
            for (row, sums) in sums.iter().enumerate() {
                for (column, sum) in sums.iter().enumerate() {
                    let to = to.add(row * one.row + column * one.column);
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
            use super::{Function, Lanes, Product, Set, tile};

            /// # Safety
            /// As [`super::tile`].
            $(#[$feature])?
            unsafe fn run<const R: usize, const C: usize>(one: &Product, ahead: [*const f32; 2]) {
                // SAFETY: as the caller promises.
                unsafe { tile::<$lanes, R, C>(one, ahead) }
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

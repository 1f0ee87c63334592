//! Products of a block of rows with blocks of columns, for Winograd's and Strassen's algorithms.
//!
//! The rows are stored in blocks of elements, so that each row of a block is at a constant distance from one address
//! and needs no register of its own. A product is stored in one or two matrices directly from the registers.

use super::args::split;
use super::lanes::{Isa, Lanes, prefetch};
use ovolo::op::OpError;

/// How a product is stored in a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreMode {
    /// The product is not stored.
    None,
    /// The product replaces the content of the matrix.
    Set,
    Add,
    Subtract,
}

/// A product, or a tile of it. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// The left operand at the first row, and the distance between its blocks of lanes.
    pub v: *const f32,
    pub v_block: usize,
    /// The elements of a row.
    pub depth: usize,
    /// The weights of the first block of columns, and the distance between blocks.
    pub u: *const f32,
    pub u_block: usize,
    /// The weights to prefetch while these are used. Their blocks have the same distance.
    pub ahead: *const f32,
    /// The matrices at the first row and block of columns, and how the product is stored in each.
    pub to: [*mut f32; 2],
    pub modes: [StoreMode; 2],
    /// The distance between their rows, and between their blocks of columns.
    pub row: usize,
    pub column: usize,
}

type Function = unsafe fn(&Product, [*const f32; 2]);

/// The elements of a row that are multiplied in one round of the loop with vectors of eight. These need twice as many
/// instructions as vectors of 16, so that addresses and requests would take the place of multiplications in the cycles.
const STEPS: usize = 4;
/// The elements of a line of the cache.
const LINE: usize = 16;

/// The functions of one instruction set.
pub(super) struct Set {
    /// Indexed by the number of blocks of columns less one, and the number of rows less one.
    functions: [&'static [Function]; 2],
    lanes: usize,
}

impl Set {
    /// Returns the functions for blocks of `lanes` lanes, or an error if the processor has none.
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

    /// Returns the largest number of rows in a tile.
    pub fn rows(&self) -> usize {
        self.functions[0].len()
    }

    /// Computes some rows of one or two blocks of columns, in tiles of nearly equal height.
    ///
    /// # Safety
    /// All memory of the product must be in bounds.
    pub unsafe fn run(&self, product: &Product, rows: usize, blocks: usize) {
        let tiles = rows.div_ceil(self.rows());
        let (first_ahead, second_ahead) = (product.ahead, product.ahead.wrapping_add(product.u_block));
        for (index, part) in split(rows, tiles, 0..tiles).enumerate() {
            let tile = Product {
                v: product.v.wrapping_add(part.start * self.lanes),
                to: product.to.map(|to| to.wrapping_add(part.start * product.row)),
                ..*product
            };
            // The first tiles prefetch the next weights, and the later tiles those that are in use.
            let ahead = match (tiles, index) {
                (1, _) => [first_ahead, second_ahead],
                (_, 0) => [first_ahead, product.u],
                (_, 1) => [product.u, second_ahead],
                _ => [product.u; 2],
            };
            // SAFETY: the rows are within the block, and the processor has the instruction set.
            unsafe { self.functions[blocks - 1][part.len() - 1](&tile, ahead) };
        }
    }
}

/// Computes a tile of `R` rows and `C` blocks of columns.
///
/// # Safety
/// As for [`Set::run`]; the processor must have the instruction set of `V`.
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
            let mut rest = lanes;
            while width < LINE && rest >= STEPS {
                for step in 0..STEPS {
                    add::<V, R, C>(&mut sums, v.add(step), u.add(step * width), one.u_block);
                    // A line of the cache is requested once.
                    if step * width % LINE == 0 {
                        ahead.iter().for_each(|line| prefetch(line.wrapping_add(step * width)));
                    }
                }
                (u, v) = (u.add(STEPS * width), v.add(STEPS));
                ahead = ahead.map(|line| line.wrapping_add(STEPS * width));
                rest -= STEPS;
            }
            while rest > 0 {
                add::<V, R, C>(&mut sums, v, u, one.u_block);
                ahead.iter().for_each(|line| prefetch(*line));
                (u, v) = (u.add(width), v.add(1));
                ahead = ahead.map(|line| line.wrapping_add(width));
                rest -= 1;
            }
            left -= lanes;
            block = block.wrapping_add(one.v_block);
        }
        for (to, way) in one.to.into_iter().zip(one.modes) {
            if way == StoreMode::None {
                continue;
            }
            for (row, sums) in sums.iter().enumerate() {
                for (column, sum) in sums.iter().enumerate() {
                    let to = to.add(row * one.row + column * one.column);
                    let value = match way {
                        StoreMode::Add => V::load(to).add(*sum),
                        StoreMode::Subtract => V::load(to).sub(*sum),
                        _ => *sum,
                    };
                    value.store(to);
                }
            }
        }
    }
}

/// Adds the products of one element of each row with the weights of `C` blocks.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn add<V: Lanes, const R: usize, const C: usize>(
    sums: &mut [[V; C]; R],
    v: *const f32,
    u: *const f32,
    u_block: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut weights = [V::splat(0.0); C];
        for (column, weight) in weights.iter_mut().enumerate() {
            *weight = V::load(u.add(column * u_block));
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let value = V::splat(*v.add(row * V::COUNT));
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = value.mul_add(weight, *sum);
            }
        }
    }
}

/// Defines a module with the functions of one instruction set.
macro_rules! module {
    ($name:ident, $lanes:ty, [$($rows:literal),*], $(#[$feature:meta])?) => {
        mod $name {
            use super::{Function, Lanes, Product, Set, tile};

            /// # Safety
            /// As for [`super::tile`].
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

//! The matrix products of Winograd's algorithm: tiles by channels times channels by outputs.
//!
//! Tiles lie in blocks of channels, so that every tile of a block is a fixed distance from one
//! address and costs no register of its own.

use crate::backend::native::lanes::{Lanes, prefetch};

/// Tiles of a product, by blocks of output channels less one.
pub(super) const ROWS_512: usize = 14;
/// The same for 16 registers.
pub(super) const ROWS_256: usize = 6;

/// A product at one frequency. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Transformed inputs of the first tile, and between their blocks of channels.
    pub v: *const f32,
    pub v_block: usize,
    /// Channels.
    pub depth: usize,
    /// Transformed weights of the first block of outputs, and between blocks.
    pub u: *const f32,
    pub u_block: usize,
    /// Weights that are needed after these, asked for as these are used.
    pub ahead: [*const f32; 2],
    /// The sums of the first tile and block of outputs, and between blocks.
    pub m: *mut f32,
    pub m_block: usize,
}

/// The sums of `R` tiles and `O` blocks of outputs.
///
/// # Safety
/// All that the product names is in bounds; the processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn product<V: Lanes, const R: usize, const O: usize>(product: &Product) {
    let width = V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); O]; R];
        let mut u = product.u;
        let mut left = product.depth;
        let mut ahead = product.ahead;
        let mut block = product.v;
        while left > 0 {
            let lanes = left.min(width);
            let mut v = block;
            for _ in 0..lanes {
                let mut weights = [V::splat(0.0); O];
                for (output, weight) in weights.iter_mut().enumerate() {
                    *weight = V::load(u.add(output * product.u_block));
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
            block = block.wrapping_add(product.v_block);
        }
        for (row, sums) in sums.iter().enumerate() {
            for (output, sum) in sums.iter().enumerate() {
                sum.store(product.m.add(output * product.m_block + row * width));
            }
        }
    }
}

//! Gates of convolutions: sums that pass where another operand lies between two bounds, and are zero elsewhere.
//!
//! A gate that a kernel applies where it stores its sums, and not in a second pass, reads each element of its operand
//! before the sum is stored. So the result may take the operand's place. The sums of a tile are first in a small buffer:
//! the tile's own code would keep them in memory if it had more to do.

use super::tile::{Micro, Place, Tile};
use crate::lanes::{Lanes, widened};
use std::mem::MaybeUninit;

/// The most sums in a tile: 28 vectors.
const SUMS: usize = 28 * 16;

/// A gate by an operand of the result's type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub operand: usize,
    /// The bounds, which are outside.
    pub bounds: [f32; 2],
}

/// The sums of one block of a tile, and where they go.
struct Store<'a> {
    gate: &'a Gate,
    tile: &'a Tile,
    from: *const f32,
    /// The distance of the block from the first one in the result, and the number of its sums.
    at: usize,
    count: usize,
    /// The gate's operand at the beginning of the tile.
    by: *const f32,
}

impl Gate {
    /// Computes a tile, which begins so many elements after the result, of some blocks and pixels.
    ///
    /// # Safety
    /// As for [`Micro::run`]. The tile must be complete, and its pixels side by side in the result.
    pub unsafe fn tile(
        &self,
        micro: &Micro,
        inputs: &[*const u8],
        start: usize,
        tile: &Tile,
        [blocks, pixels]: [usize; 2],
        place: Place,
    ) {
        let mut sums = [const { MaybeUninit::<f32>::uninit() }; SUMS];
        let count = pixels * tile.y_pixel;
        let apart = Tile {
            y: sums.as_mut_ptr().cast(),
            y_output: count,
            residual: std::ptr::null(),
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
            ..*tile
        };
        let by = inputs[self.operand].cast::<f32>().wrapping_add(start);
        // SAFETY: as the caller promises; the buffer has room for the largest tile.
        unsafe {
            micro.run(&apart, blocks, pixels, place);
            for block in 0..blocks {
                let from = apart.y.cast_const().wrapping_add(block * count);
                store(&Store { gate: self, tile, from, at: block * tile.y_output, count, by });
            }
        }
    }
}

widened! {
    /// # Safety
    /// The sums, and the elements at their places, must be in bounds.
    unsafe fn store(one: &Store<'_>) = store_on;
}

/// # Safety
/// As for [`store`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn store_on<V: Lanes>(one: &Store<'_>) {
    let Store { gate, tile, from, at, count, by } = *one;
    let mut done = 0;
    // SAFETY: as the caller promises.
    unsafe {
        let [above, below] = gate.bounds.map(|bound| V::splat(bound));
        let (low, high, zero) = (V::splat(tile.low), V::splat(tile.high), V::splat(0.0));
        while done < count {
            let some = (count - done).min(V::COUNT);
            let mut sum = V::load_first(from.wrapping_add(done), some);
            if !tile.residual.is_null() {
                sum = sum.add(V::load_first(tile.residual.wrapping_add(at + done), some));
            }
            sum = high.min(low.max(sum));
            let by = V::load_first(by.wrapping_add(at + done), some);
            sum = V::select(above.less(by), sum, zero);
            sum = V::select(by.less(below), sum, zero);
            sum.store_first(tile.y.wrapping_add(at + done), some);
            done += V::COUNT;
        }
    }
}

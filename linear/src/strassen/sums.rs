//! The seven sums of quarters of the left operand.

use crate::lanes::{Lanes, widened};

/// Some rows of the upper half of a matrix and the rows below them, in one block of lanes of the left half and the
/// block to its right. Distances are in elements.
pub(super) struct Quarters {
    /// The first row of the upper half, in the left and in the right half.
    pub upper: [*const f32; 2],
    /// The same for the lower half, which is zero if there are no rows below.
    pub lower: [*const f32; 2],
    pub below: bool,
    /// The distance between rows.
    pub row: usize,
    pub rows: usize,
    /// The lanes in use; the others are zero.
    pub lanes: usize,
    /// The first sum, in rows of whole blocks, and the distance between sums.
    pub to: *mut f32,
    pub sum: usize,
}

/// Computes the sums, in blocks of `lanes` lanes.
///
/// # Safety
/// All memory of the quarters must be in bounds.
pub(super) unsafe fn sums(quarters: &Quarters, lanes: usize) {
    // SAFETY: as the caller promises.
    unsafe { if lanes == 16 { wide(quarters) } else { narrow(quarters) } }
}

widened! {
    /// # Safety
    /// As for [`sums`]; vectors must have 16 lanes.
    unsafe fn wide(quarters: &Quarters) = each;
}
widened! {
    /// # Safety
    /// As for [`sums`]; vectors must have 8 lanes.
    unsafe fn narrow(quarters: &Quarters) = each of 8;
}

/// # Safety
/// As for [`sums`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn each<V: Lanes>(quarters: &Quarters) {
    let [left, right] = quarters.upper;
    let [below_left, below_right] = quarters.lower;
    // SAFETY: as the caller promises.
    unsafe {
        for row in 0..quarters.rows {
            let (a11, a12) = (load::<V>(quarters, left, row), load::<V>(quarters, right, row));
            let (a21, a22) = match quarters.below {
                true => (load::<V>(quarters, below_left, row), load::<V>(quarters, below_right, row)),
                false => (V::splat(0.0), V::splat(0.0)),
            };
            // The order and the signs are those of `op::strassen::PRODUCTS`.
            let sums = [a11.add(a22), a21.add(a22), a11, a22, a11.add(a12), a21.sub(a11), a12.sub(a22)];
            for (index, sum) in sums.into_iter().enumerate() {
                sum.store(quarters.to.add(index * quarters.sum + row * V::COUNT));
            }
        }
    }
}

/// Loads the lanes of a row. A closure would become a function without the instruction set, and call one for each load.
///
/// # Safety
/// As for [`each`].
#[inline(always)]
unsafe fn load<V: Lanes>(quarters: &Quarters, from: *const f32, row: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let from = from.add(row * quarters.row);
        if quarters.lanes == V::COUNT { V::load(from) } else { V::load_first(from, quarters.lanes) }
    }
}

//! The seven sums of quarters of the left operand.

use crate::lanes::{Lanes, widened};

/// Some rows of the upper half of a matrix and those below them, of one block of lanes of its left half and
/// those right of them. Distances are in elements.
pub(super) struct Quarters {
    /// The first row of the upper half, of the left and the right.
    pub upper: [*const f32; 2],
    /// The same of the lower half, which is zero where there is none below.
    pub lower: [*const f32; 2],
    pub below: bool,
    /// Between rows.
    pub row: usize,
    pub rows: usize,
    /// Lanes in use; the others are zero.
    pub lanes: usize,
    /// The first sum, in rows of whole blocks, and between sums.
    pub to: *mut f32,
    pub sum: usize,
}

/// Makes the sums, in blocks of so many lanes.
///
/// # Safety
/// All that is named is in bounds.
pub(super) unsafe fn sums(quarters: &Quarters, lanes: usize) {
    // SAFETY: as the caller promises.
    unsafe { if lanes == 16 { wide(quarters) } else { narrow(quarters) } }
}

widened! {
    /// # Safety
    /// As [`sums`]; vectors have 16 lanes.
    unsafe fn wide(quarters: &Quarters) = each;
}
widened! {
    /// # Safety
    /// As [`sums`]; vectors have 8 lanes.
    unsafe fn narrow(quarters: &Quarters) = each of 8;
}

/// # Safety
/// As [`sums`]; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn each<V: Lanes>(quarters: &Quarters) {
    let whole = quarters.lanes == V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let load = |from: *const f32, row: usize| {
            let from = from.add(row * quarters.row);
            if whole { V::load(from) } else { V::load_first(from, quarters.lanes) }
        };
        for row in 0..quarters.rows {
            let [a11, a12] = quarters.upper.map(|from| load(from, row));
            let [a21, a22] =
                if quarters.below { quarters.lower.map(|from| load(from, row)) } else { [V::splat(0.0); 2] };
            // As `op::strassen::PRODUCTS` has them.
            let sums = [a11.add(a22), a21.add(a22), a11, a22, a11.add(a12), a21.sub(a11), a12.sub(a22)];
            for (index, sum) in sums.into_iter().enumerate() {
                sum.store(quarters.to.add(index * quarters.sum + row * V::COUNT));
            }
        }
    }
}

//! The products of the gates' weights with the state.
//!
//! Plain weights are read row by row. Packed weights are panels of 16 rows, in which the elements of a column are
//! adjacent: an element of the state is multiplied with a whole column, several panels are summed at the same time, and
//! no sum goes across the lanes of a vector.

use super::super::lanes::Lanes;
use std::ops::Range;

/// The rows of weights in a panel.
pub(super) const PANEL: usize = 16;
/// The layout of packed weights.
pub(super) const PACKED: &str = "aBc16b";

/// The weights of one direction, and what they are multiplied with.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// The weights, plain or in panels.
    pub weights: *const f32,
    pub packed: bool,
    /// The elements of a state, and the distance between the states of two sequences.
    pub depth: usize,
    /// The number of sequences.
    pub batch: usize,
    pub states: *const f32,
    /// The sums of the first sequence, and the distance to those of the next one.
    pub sums: *mut f32,
    pub width: usize,
}

impl Product {
    /// Computes the sums of these rows of the weights.
    ///
    /// # Safety
    /// All elements must be in bounds, and no other thread may use these sums.
    #[inline(always)]
    pub(super) unsafe fn rows<V: Lanes>(&self, rows: Range<usize>) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.packed {
                self.in_panels::<V>(rows);
            } else {
                self.row_by_row::<V>(rows);
            }
        }
    }

    /// # Safety
    /// As for [`Self::rows`].
    #[inline(always)]
    unsafe fn row_by_row<V: Lanes>(&self, rows: Range<usize>) {
        let mut first = rows.start;
        while first < rows.end {
            let count = (rows.end - first).min(4);
            for one in 0..self.batch {
                // SAFETY: as the caller promises.
                unsafe {
                    dots::<V>(
                        self.weights.add(first * self.depth),
                        count,
                        self.states.add(one * self.depth),
                        self.depth,
                        self.sums.add(one * self.width + first),
                    );
                }
            }
            first += count;
        }
    }

    /// # Safety
    /// As for [`Self::rows`].
    #[inline(always)]
    unsafe fn in_panels<V: Lanes>(&self, rows: Range<usize>) {
        let mut one = 0;
        while one < self.batch {
            let count = (self.batch - one).min(3);
            let mut panel = rows.start / PANEL;
            let end = rows.end.div_ceil(PANEL);
            // SAFETY: as the caller promises.
            unsafe {
                while panel < end {
                    let left = end - panel;
                    panel += match count {
                        1 if V::COUNT == PANEL && left >= 8 => self.panels::<V, 8, 1>(one, panel, &rows),
                        1 if left >= 4 => self.panels::<V, 4, 1>(one, panel, &rows),
                        1 if left >= 2 => self.panels::<V, 2, 1>(one, panel, &rows),
                        1 => self.panels::<V, 1, 1>(one, panel, &rows),
                        2 if left >= 2 => self.panels::<V, 2, 2>(one, panel, &rows),
                        2 => self.panels::<V, 1, 2>(one, panel, &rows),
                        _ if left >= 2 => self.panels::<V, 2, 3>(one, panel, &rows),
                        _ => self.panels::<V, 1, 3>(one, panel, &rows),
                    };
                }
            }
            one += count;
        }
    }

    /// Computes the sums of `P` panels for `S` sequences, and returns `P`.
    ///
    /// # Safety
    /// As for [`Self::rows`].
    #[inline(always)]
    unsafe fn panels<V: Lanes, const P: usize, const S: usize>(
        &self,
        one: usize,
        panel: usize,
        rows: &Range<usize>,
    ) -> usize {
        // A panel is one vector or two.
        let vectors = PANEL / V::COUNT;
        let depth = self.depth;
        // SAFETY: as the caller promises.
        unsafe {
            let weights = self.weights.add(panel * PANEL * depth);
            let states = self.states.add(one * depth);
            let mut sums = [[[V::splat(0.0); 2]; P]; S];
            for at in 0..depth {
                for p in 0..P {
                    for v in 0..vectors {
                        let w = V::load(weights.add((p * depth + at) * PANEL + v * V::COUNT));
                        for (s, sums) in sums.iter_mut().enumerate() {
                            let state = V::splat(*states.add(s * depth + at));
                            sums[p][v] = w.mul_add(state, sums[p][v]);
                        }
                    }
                }
            }
            for (s, sums) in sums.iter().enumerate() {
                let to = self.sums.add((one + s) * self.width);
                for (p, sums) in sums.iter().enumerate() {
                    for (v, sum) in sums.iter().take(vectors).enumerate() {
                        let first = (panel + p) * PANEL + v * V::COUNT;
                        put(*sum, to, first, rows);
                    }
                }
            }
        }
        P
    }
}

/// Stores the lanes of a vector that are among the rows.
///
/// # Safety
/// The rows must be in bounds.
#[inline(always)]
unsafe fn put<V: Lanes>(sums: V, to: *mut f32, first: usize, rows: &Range<usize>) {
    // SAFETY: as the caller promises.
    unsafe {
        if first >= rows.start && first + V::COUNT <= rows.end {
            sums.store(to.add(first));
            return;
        }
        let mut lanes = [0.0; PANEL];
        sums.store(lanes.as_mut_ptr());
        for (lane, value) in lanes.iter().enumerate().take(V::COUNT) {
            if rows.contains(&(first + lane)) {
                *to.add(first + lane) = *value;
            }
        }
    }
}

/// The products of up to four rows of weights with a state.
///
/// # Safety
/// All elements must be in bounds.
#[inline(always)]
unsafe fn dots<V: Lanes>(rows: *const f32, count: usize, state: *const f32, depth: usize, to: *mut f32) {
    // SAFETY: as the caller promises; rows beyond the count are not read.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        let row = |index: usize| rows.add(index.min(count - 1) * depth);
        let rows = [row(0), row(1), row(2), row(3)];
        let whole = depth / V::COUNT * V::COUNT;
        let mut at = 0;
        while at < whole {
            let h = V::load(state.add(at));
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = V::load(row.add(at)).mul_add(h, *sum);
            }
            at += V::COUNT;
        }
        if at < depth {
            let h = V::load_first(state.add(at), depth - at);
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = V::load_first(row.add(at), depth - at).mul_add(h, *sum);
            }
        }
        for (index, sum) in sums.into_iter().take(count).enumerate() {
            *to.add(index) = sum.sum();
        }
    }
}

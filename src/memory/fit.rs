//! Fast heuristics: place buffers in some order, each at its lowest free offset.

use super::{Buffer, Packing, Planner, lower_bound};
use std::cmp::Reverse;

/// First fit, the largest buffer first, which most engines use.
pub(super) struct FirstFit;

impl Planner for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn plan(&self, buffers: &[Buffer]) -> Packing {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&at| Reverse(buffers[at].size));
        place(buffers, &order, &mut Work::new(u64::MAX, &mut |_| {}))
    }
}

/// The work of the heuristics, counted in pairs of buffers that are compared.
pub(super) struct Work<'a> {
    /// The pairs that are left.
    left: u64,
    done: u64,
    /// Called about every [`TOLD`] pairs with the number of pairs so far.
    tell: &'a mut dyn FnMut(u64),
}

/// The pairs between two calls of `tell`, which take some tens of milliseconds.
const TOLD: u64 = 1 << 24;

impl<'a> Work<'a> {
    /// Starts with a limit. Above it, no further order is tried.
    pub(crate) fn new(most: u64, tell: &'a mut dyn FnMut(u64)) -> Self {
        Self { left: most, done: 0, tell }
    }

    /// Returns whether the limit is reached.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of pairs so far.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    fn count(&mut self, pairs: usize) {
        let before = self.done / TOLD;
        self.done += pairs as u64;
        self.left = self.left.saturating_sub(pairs as u64);
        if self.done / TOLD > before {
            (self.tell)(self.done);
        }
    }
}

/// The key of an order; the largest key comes first.
type Key<'a> = &'a dyn Fn(&Buffer) -> (usize, usize);

/// The best of first fit in several orders. It stops at the lower bound.
pub(super) struct Best;

impl Planner for Best {
    fn name(&self) -> &'static str {
        "best"
    }

    fn plan(&self, buffers: &[Buffer]) -> Packing {
        best(buffers, &mut Work::new(u64::MAX, &mut |_| {}))
    }
}

/// Returns the best of first fit in several orders. The first order is tried even if no work is left.
pub(super) fn best(buffers: &[Buffer], work: &mut Work<'_>) -> Packing {
    let life = |buffer: &Buffer| buffer.upper - buffer.lower;
    let keys: [Key; 5] = [
        &|b| (b.size, life(b)),
        &|b| (b.size.saturating_mul(life(b)), b.size),
        &|b| (life(b), b.size),
        &|b| (usize::MAX - b.lower, b.size),
        &|b| (b.upper, b.size),
    ];
    let mut best: Option<Packing> = None;
    for key in keys {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&at| Reverse(key(&buffers[at])));
        // A buffer below which another one was placed moves to the front, and the order is tried again.
        for _ in 0..8 {
            if best.is_some() && work.left == 0 {
                break;
            }
            let packing = place(buffers, &order, work);
            let highest =
                (0..buffers.len()).max_by_key(|&at| (packing.offsets[at] + buffers[at].size, Reverse(at)));
            if best.as_ref().is_none_or(|best| packing.peak < best.peak) {
                best = Some(packing);
            }
            if best.as_ref().is_some_and(|best| best.peak == best.lower_bound) {
                return best.unwrap_or_else(|| place(buffers, &order, work));
            }
            let Some(highest) = highest else { break };
            order.retain(|&at| at != highest);
            order.insert(0, highest);
        }
    }
    best.unwrap_or_else(|| place(buffers, &[], work))
}

fn place(buffers: &[Buffer], order: &[usize], work: &mut Work<'_>) -> Packing {
    let mut offsets = vec![0; buffers.len()];
    // The placed buffers, sorted by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    let mut peak = 0;
    for &at in order {
        let buffer = &buffers[at];
        if buffer.lower >= buffer.upper {
            continue; // never live, and thus in nobody's way at offset 0
        }
        let mut offset = 0;
        let mut looked = 0;
        for &other in &placed {
            looked += 1;
            let live = buffers[other].lower < buffer.upper && buffer.lower < buffers[other].upper;
            if !live || buffers[other].size == 0 {
                continue;
            }
            if offset + buffer.size <= offsets[other] {
                break;
            }
            offset = offset.max((offsets[other] + buffers[other].size).next_multiple_of(buffer.align.max(1)));
        }
        work.count(looked);
        offsets[at] = offset;
        peak = peak.max(offset + buffer.size);
        let position = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(position, at);
    }
    let lower_bound = lower_bound(buffers);
    Packing { offsets, peak, lower_bound, proven: peak == lower_bound, steps: 0, gained: 0 }
}

//! Fast heuristics: buffers in some order, each at the lowest offset that is free.

use super::{Buffer, Packing, Planner, lower_bound};
use std::cmp::Reverse;

/// First fit, the largest buffer first: what most engines use.
pub(super) struct FirstFit;

impl Planner for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn plan(&self, buffers: &[Buffer]) -> Packing {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&at| Reverse(buffers[at].size));
        place(buffers, &order)
    }
}

/// What an order goes by, the largest first.
type Key<'a> = &'a dyn Fn(&Buffer) -> (usize, usize);

/// The best of first fit in several orders; stops at the lower bound.
pub(super) struct Best;

impl Planner for Best {
    fn name(&self) -> &'static str {
        "best"
    }

    fn plan(&self, buffers: &[Buffer]) -> Packing {
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
            // A buffer that another was placed under moves to the front, and the order is tried again.
            for _ in 0..8 {
                let packing = place(buffers, &order);
                let highest = (0..buffers.len())
                    .max_by_key(|&at| (packing.offsets[at] + buffers[at].size, Reverse(at)));
                if best.as_ref().is_none_or(|best| packing.peak < best.peak) {
                    best = Some(packing);
                }
                if best.as_ref().is_some_and(|best| best.peak == best.lower_bound) {
                    return best.unwrap_or_else(|| place(buffers, &order));
                }
                let Some(highest) = highest else { break };
                order.retain(|&at| at != highest);
                order.insert(0, highest);
            }
        }
        best.unwrap_or_else(|| place(buffers, &[]))
    }
}

fn place(buffers: &[Buffer], order: &[usize]) -> Packing {
    let mut offsets = vec![0; buffers.len()];
    // Those placed, by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    let mut peak = 0;
    for &at in order {
        let buffer = &buffers[at];
        if buffer.lower >= buffer.upper {
            continue; // never live, and thus in nobody's way at offset 0
        }
        let mut offset = 0;
        for &other in &placed {
            let live = buffers[other].lower < buffer.upper && buffer.lower < buffers[other].upper;
            if !live || buffers[other].size == 0 {
                continue;
            }
            if offset + buffer.size <= offsets[other] {
                break;
            }
            offset = offset.max((offsets[other] + buffers[other].size).next_multiple_of(buffer.align.max(1)));
        }
        offsets[at] = offset;
        peak = peak.max(offset + buffer.size);
        let position = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(position, at);
    }
    let lower_bound = lower_bound(buffers);
    Packing { offsets, peak, lower_bound, proven: peak == lower_bound, steps: 0, gained: 0 }
}

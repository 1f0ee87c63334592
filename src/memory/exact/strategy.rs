//! The strategies of the search: which buffers it tries first.

use super::problem::Problem;
use super::search::Pick;
use crate::random::{self, STEP};
use std::cmp::Reverse;

/// The key by which buffers are ranked. The first in rank is tried first.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Life,
    Size,
    Area,
    Span,
}

/// The strategies of the search, which take turns. Each of them packs instances that the others do not.
pub(super) const STRATEGIES: [(Pick, Order); 8] = [
    (Pick::Failing, Order::Size),
    (Pick::Tight, Order::Size),
    (Pick::Failing, Order::Life),
    (Pick::Tight, Order::Span),
    (Pick::Failing, Order::Area),
    (Pick::Tight, Order::Area),
    (Pick::Failing, Order::Span),
    (Pick::Tight, Order::Life),
];

/// Returns the rank of each item by the key of the order, the largest key first. From the second round on, the
/// keys are changed by up to a third, depending on the seed.
pub(super) fn rank(problem: &Problem, order: Order, seed: usize) -> Vec<usize> {
    let key = |at: usize| {
        let item = &problem.items[at];
        let life = item.given.upper - item.given.lower;
        let (first, second) = match order {
            Order::Life => (life as u128, item.given.size),
            Order::Size => (item.given.size as u128, item.end - item.first),
            Order::Area => (life as u128 * item.given.size as u128, item.given.size),
            Order::Span => ((item.end - item.first) as u128, item.given.size),
        };
        let off = if seed < STRATEGIES.len() { 0 } else { mix(seed, at) % 342 };
        (first.saturating_mul(1024 + u128::from(off)), second)
    };
    let mut order: Vec<usize> = (0..problem.items.len()).collect();
    order.sort_by_cached_key(|&at| Reverse(key(at)));
    let mut rank = vec![0; order.len()];
    for (position, at) in order.into_iter().enumerate() {
        rank[at] = position;
    }
    rank
}

/// Returns a pseudorandom number from two numbers.
pub(super) fn mix(seed: usize, at: usize) -> u64 {
    random::mix((seed as u64).wrapping_mul(STEP).wrapping_add(at as u64))
}

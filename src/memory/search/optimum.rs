//! The least peak of a range of tasks.

use super::decide::{Decision, Verdict};
use super::model::Model;
use super::problem::Problem;
use std::ops::Range;

/// One question takes at most this part of the states that are left: a half.
const SHARE: usize = 2;

/// What is known about the orders of a range of tasks.
pub(super) struct Known {
    /// An order.
    pub order: Vec<usize>,
    /// The most bytes that are live in this order.
    pub peak: usize,
    /// A number of bytes that no order is below.
    pub least: usize,
}

impl Known {
    /// Improves an order and the bound until they meet or the states are used up. Returns the states that are left.
    pub(super) fn improve(&mut self, model: &Model, range: &Range<usize>, states: usize) -> usize {
        match range.len() {
            _ if self.peak <= self.least => states,
            0..=64 => self.improve_in::<1>(model, range, states),
            65..=128 => self.improve_in::<2>(model, range, states),
            129..=256 => self.improve_in::<4>(model, range, states),
            257..=512 => self.improve_in::<8>(model, range, states),
            // Such a part has too many states for a search to be of use.
            _ => states,
        }
    }

    fn improve_in<const N: usize>(&mut self, model: &Model, range: &Range<usize>, states: usize) -> usize {
        // The time of a state grows with the words of its set.
        let mut left = states / N;
        let forward = Problem::<N>::new(model, range);
        let backward = forward.reversed();
        // Where the states for one question are used up, the answer is taken to be no at first, and then to be yes.
        for optimistic in [false, true] {
            let (mut low, mut high) = (self.least, self.peak);
            while low < high && left > 0 {
                let ceiling = low + (high - low) / 2;
                let share = left.div_ceil(SHARE);
                let mut decision = Decision::new(&forward, &backward, ceiling, share);
                let verdict = decision.run();
                left -= share - decision.left();
                match verdict {
                    Verdict::Order(order) => {
                        self.order = order.into_iter().map(|task| task + range.start).collect();
                        high = self.peak_of(model, range);
                        self.peak = high;
                    }
                    Verdict::Impossible(next) => {
                        low = next.min(self.peak);
                        self.least = self.least.max(low);
                    }
                    Verdict::Unknown if optimistic => high = ceiling,
                    Verdict::Unknown => low = ceiling + 1,
                }
            }
            if self.least >= self.peak {
                break;
            }
        }
        left * N
    }

    fn peak_of(&self, model: &Model, range: &Range<usize>) -> usize {
        let before: Vec<usize> = (0..range.start).chain(self.order.iter().copied()).collect();
        model.live(&before)[range.start..].iter().copied().max().unwrap_or(0)
    }
}

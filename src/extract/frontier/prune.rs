//! Chooses the states that are kept, and handles the states above the limit.

use super::super::option::bits;
use super::dominance::{Rivalry, Sources};
use super::{Excess, Run, Stop};

impl Run<'_> {
    /// Moves the states that no other state dominates from `next` to `states`, the cheapest first.
    pub(super) fn prune(&mut self) -> Result<(), Stop> {
        let next = &self.next;
        let mut sorted: Vec<u32> = (0..next.len() as u32).collect();
        let count = |at: u32| next.key(at as usize).iter().map(|word| word.count_ones()).sum::<u32>();
        sorted.sort_by(|&a, &b| {
            let cost = next.cost[a as usize].total_cmp(&next.cost[b as usize]);
            cost.then_with(|| count(a).cmp(&count(b)))
                .then_with(|| next.key(a as usize).cmp(next.key(b as usize)))
        });
        self.states.clear();
        let sources = if sorted.len() > 1 { self.sources() } else { Sources::default() };
        let mut compared = 0;
        let mut rivalry = Rivalry::new(self.words);
        for &at in &sorted {
            let at = at as usize;
            let (key, cost) = (next.key(at), next.cost[at]);
            let rivals = self.states.len().min(RIVALS);
            compared += rivals;
            if rivals > 0 && self.superfluous(key, cost, rivals, &sources, &mut rivalry) {
                continue;
            }
            if self.states.len() == self.caps.states && self.excess == Excess::Stop {
                return Err(Stop::States);
            }
            self.states.insert(key, cost, next.from[at], next.option[at]);
        }
        self.work += compared / 16;
        if self.states.len() > self.caps.states {
            match self.excess {
                Excess::Stop => return Err(Stop::States),
                Excess::Drop => self.drop_excess(),
                Excess::Merge => self.merge_excess(),
            }
        }
        self.peak = self.peak.max(self.states.len());
        Ok(())
    }

    /// Returns the states in the order of their promise: the cost, plus the estimated cost of their demands, minus
    /// that of what they provide.
    fn promise(&self) -> Vec<u32> {
        let table = &self.states;
        let worth = |at: usize| {
            let key = table.key(at);
            let mut sum = table.cost[at];
            for (word, &key) in key.iter().enumerate() {
                let worth =
                    |bit: usize| self.network.worth.get(self.class[word * 64 + bit] as usize).unwrap_or(&0.0);
                sum += bits(key & self.demanded[word]).map(worth).sum::<f64>();
                sum -= bits(key & self.provided[word]).map(worth).sum::<f64>();
            }
            sum
        };
        let worths: Vec<f64> = (0..table.len()).map(worth).collect();
        let mut sorted: Vec<u32> = (0..table.len() as u32).collect();
        sorted.sort_by(|&a, &b| worths[a as usize].total_cmp(&worths[b as usize]).then(a.cmp(&b)));
        sorted
    }

    fn drop_excess(&mut self) {
        let sorted = self.promise();
        self.next.clear();
        for &at in &sorted[..self.caps.states] {
            let at = at as usize;
            self.next.insert(
                self.states.key(at),
                self.states.cost[at],
                self.states.from[at],
                self.states.option[at],
            );
        }
        std::mem::swap(&mut self.states, &mut self.next);
    }

    /// Keeps the more promising states, up to half of the limit, unchanged. Of the others, each one above the limit
    /// is merged into the one that differs least from it.
    fn merge_excess(&mut self) {
        let mut sorted = self.promise();
        let rest = sorted.split_off(self.caps.states / 2);
        let table = &self.states;
        let mut merged: Vec<(Vec<u64>, f64, u32, u32)> = Vec::new();
        for at in rest {
            let at = at as usize;
            let (key, cost) = (table.key(at), table.cost[at]);
            if merged.len() < self.caps.states - sorted.len() {
                merged.push((key.to_vec(), cost, table.from[at], table.option[at]));
                continue;
            }
            let apart =
                |other: &[u64]| -> u32 { key.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum() };
            let near =
                merged.iter_mut().min_by_key(|(other, ..)| apart(other)).expect("a cap is at least two");
            for (word, (other, &key)) in near.0.iter_mut().zip(key).enumerate() {
                *other = *other & key & self.demanded[word] | (*other | key) & self.provided[word];
            }
            near.1 = near.1.min(cost);
        }
        self.next.clear();
        for &at in &sorted {
            let at = at as usize;
            self.next.insert(table.key(at), table.cost[at], table.from[at], table.option[at]);
        }
        for (key, cost, from, option) in merged {
            self.next.insert(&key, cost, from, option);
        }
        std::mem::swap(&mut self.states, &mut self.next);
    }
}

/// A state is compared with this many of the cheapest kept states. More comparisons find little.
const RIVALS: usize = 400;

//! The options of a component: those of its acyclic selections that are Pareto-optimal by their cost, their demands
//! on other components, and what they provide to them.

use super::canonical::Work;
use super::component::Components;

/// The inside of a component.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// The candidates of each class, the cheapest first.
    pub classes: Vec<Vec<InnerNode>>,
}

/// A candidate of a component.
#[derive(Clone, Debug)]
pub(super) struct InnerNode {
    pub cost: f64,
    /// The classes of the same component that it reads, as bits.
    pub inner: u64,
    /// The other classes that it reads.
    pub outer: Vec<u32>,
    /// Its index in the class.
    pub place: u32,
}

/// A selection in one component.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub cost: f64,
    /// The classes of other components that it reads, as bits.
    pub reads: Vec<u64>,
    /// The classes that it computes, as bits.
    pub computes: u64,
    /// For each class that it computes, in order, the index of the candidate.
    pub places: Vec<u32>,
}

/// A component with more classes than this has no options: the exact method is not used for it.
pub(super) const INNER_CLASSES: usize = 64;

impl Inner {
    pub(crate) fn new(work: &Work, components: &Components, component: usize) -> Self {
        let members = &components.classes[component];
        let classes = members.iter().map(|&class| {
            let mut nodes: Vec<InnerNode> = work.classes[class as usize]
                .iter()
                .enumerate()
                .map(|(place, node)| {
                    let (mut inner, mut outer) = (0, Vec::new());
                    for &child in &node.children {
                        if components.of[child as usize] == component as u32 {
                            inner |= 1 << components.place[child as usize];
                        } else {
                            outer.push(child);
                        }
                    }
                    InnerNode { cost: node.cost, inner, outer, place: place as u32 }
                })
                .collect();
            nodes.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            nodes
        });
        Self { classes: classes.collect() }
    }

    /// Returns for each class the classes from which it can be converted and the cost, the cheapest first. A
    /// conversion is a chain of candidates that read one class and nothing else.
    pub(crate) fn conversions(&self) -> Vec<Vec<(u32, f64)>> {
        let size = self.classes.len();
        let mut distance = vec![vec![f64::INFINITY; size]; size];
        for (to, nodes) in self.classes.iter().enumerate() {
            for node in nodes.iter().filter(|node| node.outer.is_empty() && node.inner.count_ones() == 1) {
                let from = node.inner.trailing_zeros() as usize;
                distance[to][from] = distance[to][from].min(node.cost);
            }
        }
        for via in 0..size {
            let second = distance[via].clone();
            for row in &mut distance {
                let first = row[via];
                if first < f64::INFINITY {
                    row.iter_mut().zip(&second).for_each(|(best, last)| *best = best.min(first + last));
                }
            }
        }
        let near = |(to, row): (usize, Vec<f64>)| {
            let mut near: Vec<(u32, f64)> = row
                .into_iter()
                .enumerate()
                .filter(|&(from, cost)| from != to && cost < f64::INFINITY)
                .map(|(from, cost)| (from as u32, cost))
                .collect();
            near.sort_by(|a, b| a.1.total_cmp(&b.1));
            near
        };
        distance.into_iter().enumerate().map(near).collect()
    }
}

/// The search for the options of one component.
pub(super) struct Search<'a> {
    inner: &'a Inner,
    words: usize,
    /// The classes that may save costs elsewhere if they are computed.
    keep: u64,
    /// The bit of each class in a state.
    slot: &'a [u32],
    found: Vec<Choice>,
    /// The number of candidates that were tried.
    pub steps: usize,
    limit: usize,
    places: Vec<u32>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(inner: &'a Inner, words: usize, keep: u64, slot: &'a [u32], limit: usize) -> Self {
        let places = vec![0; inner.classes.len()];
        Self { inner, words, keep, slot, found: Vec::new(), steps: 0, limit, places }
    }

    /// Returns the options that compute at least the demanded classes, the cheapest first; `None` if the limit is
    /// reached.
    pub(crate) fn options(&mut self, demanded: u64) -> Option<Vec<Choice>> {
        self.found.clear();
        let mut extra = 0_u64;
        let free = self.keep & !demanded;
        loop {
            let below = vec![0; self.inner.classes.len()];
            if !self.go(demanded | extra, 0, 0.0, &vec![0; self.words], &below) {
                return None;
            }
            // Goes on to the next subset of the free bits.
            extra = extra.wrapping_sub(free) & free;
            if extra == 0 {
                break;
            }
        }
        let mut found = std::mem::take(&mut self.found);
        found.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Some(found)
    }

    fn go(&mut self, demanded: u64, chosen: u64, cost: f64, reads: &[u64], below: &[u64]) -> bool {
        self.steps += 1;
        if self.steps > self.limit {
            return false;
        }
        let better = |choice: &Choice, computes: u64| {
            choice.cost <= cost
                && self.keep & computes & !choice.computes == 0
                && choice.reads.iter().zip(reads).all(|(a, b)| a & !b == 0)
        };
        let pending = demanded & !chosen;
        if pending == 0 {
            if !self.found.iter().any(|choice| better(choice, chosen)) {
                self.found.retain(|choice| {
                    choice.cost < cost
                        || choice.computes & self.keep & !chosen != 0
                        || reads.iter().zip(&choice.reads).any(|(a, b)| a & !b != 0)
                });
                let places =
                    (0..64).filter(|at| chosen >> at & 1 == 1).map(|at| self.places[at as usize]).collect();
                self.found.push(Choice { cost, reads: reads.to_vec(), computes: chosen, places });
            }
            return true;
        }
        // Completions can only keep more classes, so a choice that keeps all of them and is no worse beats every
        // completion.
        if self.found.iter().any(|choice| better(choice, self.keep)) {
            return true;
        }
        let inner = self.inner;
        let class = pending.trailing_zeros() as usize;
        let bit = 1 << class;
        for node in &inner.classes[class] {
            let deep = bits(node.inner).fold(node.inner, |deep, child| deep | below[child]);
            if deep & bit != 0 {
                continue;
            }
            let mut reads = reads.to_vec();
            for &child in &node.outer {
                let slot = self.slot[child as usize] as usize;
                reads[slot / 64] |= 1 << (slot % 64);
            }
            let mut below = below.to_vec();
            below[class] = deep;
            below.iter_mut().filter(|other| **other & bit != 0).for_each(|other| *other |= deep);
            self.places[class] = node.place;
            if !self.go(demanded | node.inner, chosen | bit, cost + node.cost, &reads, &below) {
                return false;
            }
        }
        true
    }
}

/// Returns the positions of the set bits.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        bit
    })
}

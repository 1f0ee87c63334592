//! Constants that several steps read: how many bytes of them are read from beyond the caches again, and an order of
//! execution in which these are fewer.
//!
//! Several steps may share weights, as the time steps of a recurrent cell do. The weights are larger than the values
//! that the steps pass on, and are still in a cache for the next step only if little else was read in between. The
//! measure is the *stack distance* (Mattson et al., Evaluation techniques for storage hierarchies, 1970): the bytes
//! of all constants that were read since the last read of this one. A cache of at least this size that evicts the
//! least recently used data still holds the constant.

use super::order::{ByGrowth, Ready, Task, greedy, orders};
use super::sequence::{Candidate, Candidates, Order};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Orders for few live bytes, and for reading shared weights again while a cache still holds them.
pub(super) struct Reuse;

impl Order for Reuse {
    fn name(&self) -> &'static str {
        "reuse"
    }

    fn candidates(&self, tasks: &[Task]) -> Candidates {
        let mut orders = orders(tasks);
        let reuse = order(tasks);
        let counts = reuse.is_some();
        orders.extend(reuse.filter(|order| !orders.contains(order)));
        let reread = |order: &[usize]| if counts { reread(tasks, order) } else { 0 };
        let candidate = |order: Vec<usize>| Candidate { reread: reread(&order), tasks: order };
        Candidates { orders: orders.into_iter().map(candidate).collect(), least: Vec::new() }
    }
}

/// The smallest and the largest cache that is considered: the private cache of a core, and more than any processor
/// has. A plan is not made for one machine, so all sizes between them are equally likely on a logarithmic scale.
const CACHES: [usize; 2] = [1 << 18, 1 << 26];

/// Returns the expected bytes of constants that are read again from beyond a cache that held them before, during one
/// run of the tasks in an order. It is near-linear in the number of reads.
pub(super) fn reread(tasks: &[Task], order: &[usize]) -> usize {
    // The reads by their time, and for each constant the time of its last read.
    let reads: Vec<(usize, usize)> =
        order.iter().flat_map(|at| tasks[*at].constants.iter().copied()).collect();
    let mut last = BTreeMap::new();
    let mut since = Sums::new(reads.len());
    let mut bytes = 0.0;
    for (time, &(constant, size)) in reads.iter().enumerate() {
        if let Some(before) = last.insert(constant, time) {
            // Each constant counts only at its last read.
            bytes += afar(since.after(before) + size) * to_f64(size);
            since.add(before, size, false);
        }
        since.add(time, size, true);
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = bytes as usize;
    whole
}

/// Returns the probability that a cache is too small to hold a constant after this number of bytes was read.
fn afar(distance: usize) -> f64 {
    let [least, most] = CACHES.map(|bytes| to_f64(bytes).log2());
    ((to_f64(distance).log2() - least) / (most - least)).clamp(0.0, 1.0)
}

#[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
fn to_f64(bytes: usize) -> f64 {
    bytes as f64
}

/// Sums of bytes over times (Fenwick, A new data structure for cumulative frequency tables, 1994).
struct Sums {
    /// The node at a place, counted from one, is the sum of as many places up to it as its lowest set bit says.
    nodes: Vec<usize>,
    total: usize,
}

impl Sums {
    fn new(times: usize) -> Self {
        Self { nodes: vec![0; times + 1], total: 0 }
    }

    fn add(&mut self, time: usize, bytes: usize, more: bool) {
        let change = |sum: &mut usize| *sum = if more { *sum + bytes } else { *sum - bytes };
        change(&mut self.total);
        let mut at = time + 1;
        while at < self.nodes.len() {
            change(&mut self.nodes[at]);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the bytes after a time.
    fn after(&self, time: usize) -> usize {
        let (mut at, mut before) = (time + 1, 0);
        while at > 0 {
            before += self.nodes[at];
            at -= at & at.wrapping_neg();
        }
        self.total - before
    }
}

/// Returns a topological order that prefers tasks which read the most recently read constant. So a step of a
/// recurrent cell begins with the weights with which the step before it ended. Returns `None` if no two tasks read
/// the same constant. It is near-linear in the number of edges.
fn order(tasks: &[Task]) -> Option<Vec<usize>> {
    let mut readers = BTreeMap::<usize, usize>::new();
    for (constant, _) in tasks.iter().flat_map(|task| &task.constants) {
        *readers.entry(*constant).or_default() += 1;
    }
    let shared = |task: &Task| {
        let others = task.constants.iter().filter(|(constant, _)| readers[constant] > 1);
        others.max_by_key(|(constant, size)| (*size, Reverse(*constant))).map(|(constant, _)| *constant)
    };
    let constants: Vec<Option<usize>> = tasks.iter().map(shared).collect();
    if constants.iter().all(Option::is_none) {
        return None;
    }
    let mut ready = ByReuse {
        constants,
        others: ByGrowth::new(true),
        ready: BTreeMap::new(),
        read: BTreeMap::new(),
        time: 0,
    };
    Some(greedy(tasks, &mut ready))
}

/// Prefers tasks that share no constant and leave no more bytes live, then tasks that read the most recently read
/// constant, and then the others.
struct ByReuse {
    /// For each task, the largest of the constants that it shares with others.
    constants: Vec<Option<usize>>,
    /// The tasks that share no constant.
    others: ByGrowth,
    /// The other tasks by their constants, those with the most recently read ones first.
    ready: BTreeMap<(Reverse<usize>, usize), BTreeSet<usize>>,
    /// The time at which each constant was read last.
    read: BTreeMap<usize, usize>,
    time: usize,
}

impl Ready for ByReuse {
    fn push(&mut self, at: usize, growth: i64, stamp: i64) {
        let Some(constant) = self.constants[at] else { return self.others.push(at, growth, stamp) };
        let read = self.read.get(&constant).copied().unwrap_or_default();
        self.ready.entry((Reverse(read), constant)).or_default().insert(at);
    }

    fn pop(&mut self) -> Option<usize> {
        if self.others.growth().is_some_and(|growth| growth <= 0) {
            return self.others.pop();
        }
        let Some(((_, constant), mut tasks)) = self.ready.pop_first() else { return self.others.pop() };
        let next = tasks.pop_first();
        self.time += 1;
        self.read.insert(constant, self.time);
        if !tasks.is_empty() {
            self.ready.insert((Reverse(self.time), constant), tasks);
        }
        next
    }
}

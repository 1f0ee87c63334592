//! Constants that several steps read: how many bytes of them are read from beyond the caches again, and an order of
//! execution in which these are fewer.
//!
//! Several steps may share weights, as the time steps of a recurrent cell do. The weights are larger than the values
//! that the steps pass on, and are still in a cache for the next step only if little else was read in between. The
//! measure is the *stack distance* (Mattson et al., Evaluation techniques for storage hierarchies, 1970): the bytes
//! of all constants that were read since the last read of this one. A cache of at least this size that evicts the
//! least recently used data still holds the constant.

use super::Task;
use super::order::{ByGrowth, Ready, greedy};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The smallest and the largest cache that is considered: the private cache of a core, and more than any processor
/// has. A plan is not made for one machine, so all sizes between them are equally likely on a logarithmic scale.
const CACHES: [usize; 2] = [1 << 18, 1 << 26];

/// Returns the expected bytes of constants that are read again from beyond a cache that held them before, during one
/// run of the tasks in an order. It is near-linear in the number of reads.
pub fn reread(tasks: &[Task], order: &[usize]) -> usize {
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
pub fn order(tasks: &[Task]) -> Option<Vec<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A recurrent cell in which each time step reads all of several weights. Each product goes into the state that
    /// the next step reads.
    fn cell(weights: usize, steps: usize, size: usize) -> Vec<Task> {
        let mut tasks = Vec::new();
        for step in 0..steps {
            let state = (step > 0).then(|| tasks.len() - 1);
            let first = tasks.len();
            tasks.extend((0..weights).map(|weight| Task {
                size: 64,
                inputs: state.into_iter().collect(),
                constants: vec![(weight, size)],
                ..Task::default()
            }));
            tasks.push(Task { size: 64, inputs: (first..tasks.len()).collect(), ..Task::default() });
        }
        tasks
    }

    #[test]
    fn a_time_step_begins_with_the_weights_that_the_one_before_it_ended_with() {
        let order = order(&cell(3, 3, MIB)).expect("weights are shared");
        assert_eq!(order, [0, 1, 2, 3, 6, 5, 4, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn what_is_read_again_counts_by_what_was_read_between() {
        let tasks = cell(4, 2, MIB);
        let given: Vec<usize> = (0..tasks.len()).collect();
        // Each of the four weights of 1 MiB is read again after 4 MiB. This is four of the eight doublings from 256
        // KiB to 64 MiB.
        assert_eq!(reread(&tasks, &given), 4 * MIB / 2);
        // The distances are one, two, three and four MiB: 2, 3, log2(12) and 4 of the eight doublings.
        let order = order(&tasks).expect("weights are shared");
        let expected = (2.0 + 3.0 + 12_f64.log2() + 4.0) / 8.0 * to_f64(MIB);
        assert!((to_f64(reread(&tasks, &order)) - expected).abs() <= 1.0);
        // What every cache holds costs nothing, and what no cache holds is read again completely.
        let of = |size| (reread(&cell(2, 2, size), &[0, 1, 2, 3, 4, 5]), 2 * size);
        assert_eq!(of(1 << 17).0, 0);
        assert!(matches!(of(1 << 26), (bytes, all) if bytes == all));
    }

    #[test]
    fn no_order_is_for_reuse_where_nothing_is_read_twice() {
        assert_eq!(order(&cell(4, 1, MIB)), None);
        assert_eq!(reread(&cell(4, 1, MIB), &[0, 1, 2, 3, 4]), 0);
    }

    /// Random tasks that read earlier tasks and constants, by SplitMix64.
    fn random(seed: u64) -> Vec<Task> {
        let mut state = seed;
        let mut below = |limit: usize| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = state;
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            usize::try_from((bits ^ bits >> 31) % limit as u64).expect("it is below a usize")
        };
        let size = |constant: usize| MIB >> (constant % 4);
        (0..40)
            .map(|at| Task {
                size: 64 * below(4),
                inputs: (0..below(3)).filter(|_| at > 0).map(|_| below(at.max(1))).collect(),
                constants: (0..below(3))
                    .map(|_| below(9))
                    .map(|constant| (constant, size(constant)))
                    .collect(),
                ..Task::default()
            })
            .collect()
    }

    #[test]
    fn orders_are_topological_and_distances_are_what_a_stack_says() {
        for seed in 0..200 {
            let tasks = random(seed);
            let order = order(&tasks).expect("forty tasks share nine constants");
            let mut done = vec![false; tasks.len()];
            // The constants, the most recently read one first. The distance of a constant is its own bytes and those
            // above it.
            let (mut stack, mut bytes) = (Vec::<(usize, usize)>::new(), 0.0);
            for at in &order {
                assert!(
                    tasks[*at].inputs.iter().all(|input| done[*input]),
                    "seed {seed}: {at} has what it reads"
                );
                assert!(!std::mem::replace(&mut done[*at], true), "seed {seed}: {at} runs once");
                for one in &tasks[*at].constants {
                    if let Some(depth) = stack.iter().position(|other| other == one) {
                        bytes += afar(stack[..=depth].iter().map(|(_, size)| size).sum()) * to_f64(one.1);
                        stack.remove(depth);
                    }
                    stack.insert(0, *one);
                }
            }
            assert!(done.iter().all(|done| *done), "seed {seed}: all run");
            assert!((to_f64(reread(&tasks, &order)) - bytes).abs() <= 1.0, "seed {seed}");
        }
    }
}

//! Orders of execution with a low peak.

use crate::tensor::Device;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A value to compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The device on which its result and its scratch lie.
    pub device: Device,
    /// The bytes of its result, padded to the alignment; zero for a view.
    pub size: usize,
    /// The bytes of its scratch, padded to the alignment.
    pub scratch: usize,
    /// The tasks whose results it reads.
    pub inputs: Vec<usize>,
    /// Those of them whose buffers its result may take, where no other task needs them any more.
    pub in_place: Vec<usize>,
    /// Those of them that may be computed at their places within its result.
    pub parts: Vec<usize>,
    /// The task whose bytes its result shares, for a view.
    pub alias_of: Option<usize>,
    /// Whether its result is needed until the end.
    pub output: bool,
    /// The constants that it reads, each once: their numbers and bytes.
    pub constants: Vec<(usize, usize)>,
}

/// Returns different topological orders, one of which may have a low peak: the given order, and two greedy ones. The
/// greedy ones prefer the task that leaves the fewest bytes live, and among equal tasks the one that became ready
/// last or first. They are near-linear in the number of edges. Which order is best is only known after the memory of
/// each is planned.
pub fn orders(tasks: &[Task]) -> Vec<Vec<usize>> {
    let mut orders = vec![(0..tasks.len()).collect()];
    for last_first in [true, false] {
        let order = greedy(tasks, &mut ByGrowth::new(last_first));
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

/// Returns for each task the task whose bytes its result shares.
pub(super) fn roots(tasks: &[Task]) -> Vec<usize> {
    let mut roots: Vec<usize> = (0..tasks.len()).collect();
    for (at, task) in tasks.iter().enumerate() {
        if let Some(of) = task.alias_of {
            roots[at] = roots[of];
        }
    }
    roots
}

/// Returns the number of reads that each buffer still has. An output has one additional read, which never happens.
fn reads(tasks: &[Task], roots: &[usize]) -> Vec<usize> {
    let mut reads = vec![0; tasks.len()];
    for task in tasks {
        for input in distinct(task, roots) {
            reads[input] += 1;
        }
    }
    for (at, task) in tasks.iter().enumerate() {
        reads[roots[at]] += usize::from(task.output);
    }
    reads
}

fn distinct(task: &Task, roots: &[usize]) -> Vec<usize> {
    let mut inputs: Vec<usize> = task.inputs.iter().map(|input| roots[*input]).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

/// The tasks that may run, in a priority queue.
pub(super) trait Ready {
    /// Adds a task, with the bytes that it adds to the live ones, and the time at which it became ready or these
    /// bytes decreased. The task may already be in the queue with more bytes.
    fn push(&mut self, at: usize, growth: i64, stamp: i64);

    /// Removes the next task. A task that was in the queue twice is returned twice.
    fn pop(&mut self) -> Option<usize>;
}

/// Prefers the task that leaves the fewest bytes live, and among equal tasks the one that became ready last or first.
pub(super) struct ByGrowth {
    queue: BinaryHeap<Reverse<(i64, i64, usize)>>,
    last_first: bool,
}

impl ByGrowth {
    pub(crate) fn new(last_first: bool) -> Self {
        Self { queue: BinaryHeap::new(), last_first }
    }

    /// Returns the bytes that the next task adds to the live ones.
    pub(crate) fn growth(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse((growth, ..))| *growth)
    }
}

impl Ready for ByGrowth {
    fn push(&mut self, at: usize, growth: i64, stamp: i64) {
        self.queue.push(Reverse((growth, if self.last_first { -stamp } else { stamp }, at)));
    }

    fn pop(&mut self) -> Option<usize> {
        self.queue.pop().map(|Reverse((.., at))| at)
    }
}

/// Returns the topological order in which `ready` chooses the next task.
pub(super) fn greedy(tasks: &[Task], ready: &mut dyn Ready) -> Vec<usize> {
    let roots = roots(tasks);
    let mut reads = reads(tasks, &roots);
    let mut missing: Vec<usize> = tasks.iter().map(|task| task.inputs.len()).collect();
    let mut users = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        for input in &task.inputs {
            users[*input].push(at);
        }
    }
    // The growth of a task is the bytes that it adds minus the bytes that it frees. It may decrease while the task is
    // in the queue; then the task is added again.
    let growth = |at: usize, reads: &[usize]| {
        let freed: usize = distinct(&tasks[at], &roots)
            .iter()
            .filter(|input| reads[**input] == 1)
            .map(|input| tasks[*input].size)
            .sum();
        i64::try_from(tasks[at].size).unwrap_or(i64::MAX) - i64::try_from(freed).unwrap_or(i64::MAX)
    };
    let mut stamp = 0_i64;
    let mut done = vec![false; tasks.len()];
    for at in (0..tasks.len()).filter(|at| missing[*at] == 0) {
        ready.push(at, growth(at, &reads), 0);
    }
    let mut order = Vec::with_capacity(tasks.len());
    while let Some(at) = ready.pop() {
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        order.push(at);
        for input in distinct(&tasks[at], &roots) {
            reads[input] -= 1;
            if reads[input] == 1 {
                stamp += 1;
                for &user in users[input].iter().filter(|user| missing[**user] == 0 && !done[**user]) {
                    ready.push(user, growth(user, &reads), stamp);
                }
            }
        }
        stamp += 1;
        for &user in &users[at] {
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.push(user, growth(user, &reads), stamp);
            }
        }
    }
    order
}

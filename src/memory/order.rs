//! Orders of execution with a low peak.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One value to compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Bytes of its result; zero for a view.
    pub size: usize,
    /// Scratch bytes while it runs.
    pub scratch: usize,
    /// Tasks whose results it reads.
    pub inputs: Vec<usize>,
    /// The task whose bytes its result is a view of.
    pub alias_of: Option<usize>,
    /// Whether its result is kept to the end.
    pub output: bool,
    /// Constants that it reads, each once, by their numbers, and the bytes of each.
    pub constants: Vec<(usize, usize)>,
}

/// Topological orders of which one may have a low peak, each once: the order given and two greedy ones,
/// which prefer the task that leaves the fewest bytes live, and among equals the one last or first made
/// possible. Near-linear in the number of edges. Which is the best shows when they are planned.
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

/// For each task, the one whose bytes its result is.
fn roots(tasks: &[Task]) -> Vec<usize> {
    let mut roots: Vec<usize> = (0..tasks.len()).collect();
    for (at, task) in tasks.iter().enumerate() {
        if let Some(of) = task.alias_of {
            roots[at] = roots[of];
        }
    }
    roots
}

/// How many reads of each buffer are to come; outputs have one that never comes.
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

/// Tasks that may run, of which one is next.
pub(super) trait Ready {
    /// One more, with the bytes that it adds to those live, and when it was made possible or these became fewer. It
    /// may be here already, with more bytes.
    fn push(&mut self, at: usize, growth: i64, stamp: i64);

    /// The next one, which may have been the next before.
    fn pop(&mut self) -> Option<usize>;
}

/// The one that leaves the fewest bytes live is next, and among equals the one last or first made possible.
pub(super) struct ByGrowth {
    queue: BinaryHeap<Reverse<(i64, i64, usize)>>,
    last_first: bool,
}

impl ByGrowth {
    pub(crate) fn new(last_first: bool) -> Self {
        Self { queue: BinaryHeap::new(), last_first }
    }

    /// What the next one adds to the bytes live.
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

/// A topological order in which `ready` says what is next.
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
    // Growth: bytes added less bytes freed. A queued task's growth may shrink; it is then queued again.
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

//! Recomputation: results that wait long for their next use are dropped, and computed again just before it, so that fewer
//! bytes are live.
//!
//! What is dropped is a set of results. Each is dropped at the beginning of its longest wait in the order of execution;
//! before the task that ends the wait, it is computed again, with operands that were dropped as well. These are then kept
//! for their own uses, so that the time of a set is mostly the sum over its members, as for the backward pass of a
//! network with checkpoints (Griewank and Walther, 2000; Chen et al., 2016). Where that leaves too many bytes, a member is
//! dropped in each of its waits, also between a run for the sake of another result and its own next use.
//!
//! A set is grown one by one: of the results that wait while too many bytes are live, the one is added with which a
//! simulation loses most bytes for the time that it adds. These bytes are those of the peak, or those above the limit,
//! summed over all runs, which tell progress where there are several peaks. Both are tried, in several orders of
//! execution, and the fastest runs are returned. They are no optimum, but any graph has them, and thousands of tasks take
//! seconds.

use super::order::{Task, orders, roots};
use crate::tensor::Device;
use std::collections::BTreeSet;

/// Tasks in the order in which they run, some of them several times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recomputed {
    /// The tasks, by their indices. Each reads the latest result of each of its operands.
    pub runs: Vec<usize>,
    /// The time of all runs, in seconds.
    pub seconds: f64,
    /// The most bytes that are live at a time.
    pub peak: usize,
}

/// So many candidates with the least time for each byte, and with the most bytes, are simulated, of those that are kept and
/// of those that are dropped once.
const CANDIDATES: usize = 12;
/// The most results that are computed for one another before a task. More would need a deep stack.
const DEEPEST: usize = 2000;
/// The most runs for each task. Where several results of a chain are dropped at one time, each may need all others.
const MOST: usize = 4;

/// In which waits for its next use a result stays live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    /// In all of them.
    All,
    /// In all but the longest one in the order of execution.
    Short,
    /// In none.
    None,
}

/// The bytes that a set of dropped results should lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The most that are live at a time.
    Peak,
    /// Those above the limit, summed over all runs.
    Excess,
}

/// Tasks of which results may be dropped.
pub(crate) struct Recomputation {
    /// The tasks, in several orders.
    graphs: Vec<TaskGraph>,
}

impl Recomputation {
    /// Takes tasks with their seconds. `order` has those that are no views, in an order in which operands come first.
    /// `None` where results lie on several devices.
    pub(crate) fn new(tasks: &[Task], seconds: &[f64], order: Vec<usize>) -> Option<Self> {
        if tasks.iter().any(|task| task.device != Device::Host) {
            return None;
        }
        let runs: BTreeSet<usize> = order.iter().copied().collect();
        // The first of these orders is that of the list of tasks, in which results wait long.
        let others = orders(tasks).into_iter().skip(1);
        let mut all = vec![order];
        for mut other in others {
            other.retain(|task| runs.contains(task));
            if !all.contains(&other) {
                all.push(other);
            }
        }
        let graph = |order| TaskGraph::new(tasks.to_vec(), seconds.to_vec(), order);
        Some(Self { graphs: all.into_iter().map(graph).collect() })
    }

    /// Returns runs with at most so many bytes live at a time, as fast as they were found; `None` if none were.
    pub(crate) fn within(&self, limit: usize) -> Option<Recomputed> {
        let mut best: Option<Recomputed> = None;
        for graph in &self.graphs {
            for aim in [Aim::Peak, Aim::Excess] {
                let Some(found) = graph.grown(limit, aim).and_then(|holds| graph.pruned(limit, holds)) else {
                    continue;
                };
                if best.as_ref().is_none_or(|best| found.seconds < best.seconds) {
                    best = Some(found);
                }
            }
        }
        best
    }
}

/// The tasks with what does not change while they are simulated.
struct TaskGraph {
    tasks: Vec<Task>,
    seconds: Vec<f64>,
    order: Vec<usize>,
    /// The task whose bytes each result shares.
    roots: Vec<usize>,
    /// For each task, the roots of its operands, each once.
    reads: Vec<Vec<usize>>,
    /// For each root, the place in the order after which nothing reads it; `None` for one that is needed until the end.
    ends: Vec<Option<usize>>,
    /// For each root, the places in the order of the tasks that make it or read it.
    uses: Vec<Vec<usize>>,
    /// For each root, the place in the order after which its longest wait begins, if other tasks run meanwhile.
    waits: Vec<Option<usize>>,
}

impl TaskGraph {
    fn new(tasks: Vec<Task>, seconds: Vec<f64>, order: Vec<usize>) -> Self {
        let roots = roots(&tasks);
        let reads = tasks.iter().map(|task| {
            let mut reads: Vec<usize> = task.inputs.iter().map(|input| roots[*input]).collect();
            reads.sort_unstable();
            reads.dedup();
            // Views of inputs and of constants have no bytes in the arena.
            reads.retain(|root| tasks[*root].size > 0);
            reads
        });
        let reads: Vec<Vec<usize>> = reads.collect();
        let mut last: Vec<Option<usize>> = vec![None; tasks.len()];
        let mut longest = vec![(0, 0); tasks.len()];
        let mut uses = vec![Vec::new(); tasks.len()];
        for (place, task) in order.iter().enumerate() {
            for root in &reads[*task] {
                let before = last[*root].unwrap_or(place);
                longest[*root] = longest[*root].max((place - before, usize::MAX - before));
                last[*root] = Some(place);
                uses[*root].push(place);
            }
            uses[*task].push(place);
            last[*task] = Some(place);
        }
        let mut ends = last;
        for (task, root) in tasks.iter().zip(&roots) {
            if task.output {
                ends[*root] = None;
            }
        }
        let waits = longest
            .iter()
            .zip(&ends)
            .map(|((wait, before), end)| end.filter(|_| *wait > 1).map(|_| usize::MAX - before));
        Self { waits: waits.collect(), tasks, seconds, order, roots, reads, ends, uses }
    }

    /// Returns a set of results to drop with which at most so many bytes are live at a time; `None` if none was found.
    fn grown(&self, limit: usize, aim: Aim) -> Option<Vec<Hold>> {
        let mut holds = vec![Hold::All; self.tasks.len()];
        let mut now = Simulation::run(self, &holds, limit)?;
        while now.peak > limit {
            let most = match aim {
                Aim::Peak => now.peak - 1,
                Aim::Excess => limit,
            };
            let waiting = Simulation::waiting(self, &holds, most)?;
            let mut best: Option<((f64, f64), usize, Hold, Totals)> = None;
            for root in self.candidates(&holds, &waiting, aim) {
                let before = holds[root];
                for less in [Hold::Short, Hold::None].into_iter().filter(|hold| *hold > before) {
                    holds[root] = less;
                    if let Some(next) = Simulation::run(self, &holds, limit)
                        && let Some(price) = price(&now, &next, aim)
                        && best.as_ref().is_none_or(|(least, ..)| price < *least)
                    {
                        best = Some((price, root, less, next));
                    }
                }
                holds[root] = before;
            }
            let (_, root, less, next) = best?;
            (holds[root], now) = (less, next);
        }
        Some(holds)
    }

    /// Returns some of the results that wait while too many bytes are live: those with the least time for each byte, and
    /// those with the most bytes.
    fn candidates(&self, holds: &[Hold], waiting: &[f64], aim: Aim) -> Vec<usize> {
        #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
        let bytes = |root: usize| match aim {
            Aim::Peak => self.tasks[root].size as f64,
            Aim::Excess => waiting[root],
        };
        let price = |root: usize| self.seconds[root] / bytes(root);
        let mut all = BTreeSet::new();
        for hold in [Hold::All, Hold::Short] {
            let can =
                |root: &usize| waiting[*root] > 0.0 && holds[*root] == hold && self.waits[*root].is_some();
            let mut some: Vec<usize> = (0..self.tasks.len()).filter(can).collect();
            some.sort_by(|a, b| bytes(*b).total_cmp(&bytes(*a)).then(a.cmp(b)));
            all.extend(some.iter().take(CANDIDATES));
            some.sort_by(|a, b| price(*a).total_cmp(&price(*b)).then(a.cmp(b)));
            all.extend(some.iter().take(CANDIDATES));
        }
        all.into_iter().collect()
    }

    /// Returns the runs of a set, without what need not be dropped: what was added early may not be needed any more.
    /// The most expensive member is tried first.
    fn pruned(&self, limit: usize, mut holds: Vec<Hold>) -> Option<Recomputed> {
        let mut best = Simulation::run(self, &holds, limit)?;
        let mut members: Vec<usize> = (0..holds.len()).filter(|root| holds[*root] > Hold::All).collect();
        members.sort_by(|a, b| self.seconds[*b].total_cmp(&self.seconds[*a]).then(a.cmp(b)));
        for member in members {
            let before = holds[member];
            for more in [Hold::All, Hold::Short].into_iter().filter(|hold| *hold < before) {
                holds[member] = more;
                match Simulation::run(self, &holds, limit) {
                    Some(next) if next.peak <= limit && next.seconds <= best.seconds => {
                        best = next;
                        break;
                    }
                    _ => holds[member] = before,
                }
            }
        }
        Simulation::runs(self, &holds)
    }
}

/// Returns the seconds that a step adds for each byte that it loses, and then the bytes, as a negative number: less is
/// better. `None` where none are lost.
#[allow(clippy::cast_precision_loss)]
fn price(before: &Totals, after: &Totals, aim: Aim) -> Option<(f64, f64)> {
    let added = (after.seconds - before.seconds).max(0.0);
    match aim {
        Aim::Peak => match before.peak.checked_sub(after.peak)? {
            // One with the same peak may be the first of several that are needed. It comes after all others.
            0 => Some((f64::MAX, 0.0)),
            less => Some((added / less as f64, -(less as f64))),
        },
        Aim::Excess => {
            let less = before.excess - after.excess;
            (less > 0.0).then(|| (added / less, -less))
        }
    }
}

/// What a set of results to drop leads to.
#[derive(Clone, Debug)]
struct Totals {
    /// The time of all runs, in seconds.
    seconds: f64,
    /// The most bytes that are live at a time.
    peak: usize,
    /// The bytes above the limit, summed over all runs.
    excess: f64,
}

/// A run of the tasks.
struct Simulation<'a> {
    graph: &'a TaskGraph,
    holds: &'a [Hold],
    limit: usize,
    /// The place in the order of the task that is run, or for which others are.
    place: usize,
    live: usize,
    /// The results that are live.
    there: Vec<bool>,
    /// How many tasks in progress need each result.
    held: Vec<usize>,
    /// How often each task was run, and for each view, of which run of its root it was made last.
    times: Vec<usize>,
    runs: Vec<usize>,
    totals: Totals,
    /// For each result, the bytes above the limit that it could take away, summed over the runs during which it waits.
    waiting: Option<Vec<f64>>,
}

impl<'a> Simulation<'a> {
    /// Returns what all runs come to; `None` if that takes far too many.
    fn run(graph: &'a TaskGraph, holds: &'a [Hold], limit: usize) -> Option<Totals> {
        Some(Self::new(graph, holds, limit).all()?.totals)
    }

    /// Returns the runs.
    fn runs(graph: &'a TaskGraph, holds: &'a [Hold]) -> Option<Recomputed> {
        let Self { runs, totals: Totals { seconds, peak, .. }, .. } =
            Self::new(graph, holds, usize::MAX).all()?;
        Some(Recomputed { runs, seconds, peak })
    }

    /// Returns for each result the bytes above the limit that it could take away, summed over the runs during which it
    /// waits.
    fn waiting(graph: &'a TaskGraph, holds: &'a [Hold], limit: usize) -> Option<Vec<f64>> {
        let mut simulation = Self::new(graph, holds, limit);
        simulation.waiting = Some(vec![0.0; graph.tasks.len()]);
        simulation.all()?.waiting
    }

    fn new(graph: &'a TaskGraph, holds: &'a [Hold], limit: usize) -> Self {
        let count = graph.tasks.len();
        Self {
            graph,
            holds,
            limit,
            place: 0,
            live: 0,
            there: vec![false; count],
            held: vec![0; count],
            times: vec![0; count],
            runs: Vec::with_capacity(count),
            totals: Totals { seconds: 0.0, peak: 0, excess: 0.0 },
            waiting: None,
        }
    }

    fn all(mut self) -> Option<Self> {
        let graph = self.graph;
        // Views of inputs and of constants take no room, and stay.
        for (task, Task { size, alias_of, inputs, .. }) in graph.tasks.iter().enumerate() {
            if *size == 0 && alias_of.is_none() && inputs.is_empty() {
                self.times[task] = 1;
                self.runs.push(task);
            }
        }
        for (place, task) in graph.order.iter().enumerate() {
            self.place = place;
            self.compute(*task, 0)?;
        }
        // Views that nothing reads may still be outputs.
        (0..graph.tasks.len()).filter(|task| graph.tasks[*task].output).for_each(|task| self.view(task));
        Some(self)
    }

    /// Runs a task, after those whose results it needs again.
    fn compute(&mut self, task: usize, depth: usize) -> Option<()> {
        let graph = self.graph;
        if depth > DEEPEST || self.runs.len() > MOST * graph.tasks.len() {
            return None;
        }
        let reads = &graph.reads[task];
        // What is there stays there while the rest is computed.
        reads.iter().for_each(|root| self.held[*root] += 1);
        for root in reads {
            if !self.there[*root] {
                self.compute(*root, depth + 1)?;
            }
        }
        let Task { size, scratch, ref in_place, .. } = graph.tasks[task];
        let free = |root: &usize| self.there[*root] && self.held[*root] == 1 && self.is_left(*root);
        let reused = in_place.iter().map(|operand| graph.roots[*operand]).find(free);
        let freed = reused.map_or(0, |root| graph.tasks[root].size);
        let live = self.live + size - freed;
        self.count(live + scratch);
        self.live = live;
        if let Some(root) = reused {
            self.there[root] = false;
        }
        self.there[task] = size > 0;
        graph.tasks[task].inputs.iter().for_each(|input| self.view(*input));
        self.times[task] += 1;
        self.runs.push(task);
        self.totals.seconds += graph.seconds[task];
        for root in reads {
            self.held[*root] -= 1;
            self.settle(*root);
        }
        self.settle(task);
        Some(())
    }

    /// Counts the bytes that are live during a run.
    #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
    fn count(&mut self, bytes: usize) {
        self.totals.peak = self.totals.peak.max(bytes);
        let Some(above) = bytes.checked_sub(self.limit).filter(|above| *above > 0) else { return };
        self.totals.excess += above as f64;
        let Some(waiting) = &mut self.waiting else { return };
        for (root, task) in self.graph.tasks.iter().enumerate() {
            if self.there[root] && self.held[root] == 0 {
                waiting[root] += above.min(task.size) as f64;
            }
        }
    }

    /// Makes a view again, if it is none of the latest result of its root.
    fn view(&mut self, task: usize) {
        let Some(of) = self.graph.tasks[task].alias_of else { return };
        self.view(of);
        let latest = self.times[self.graph.roots[task]];
        if self.times[task] != latest {
            self.times[task] = latest;
            self.runs.push(task);
        }
    }

    /// Whether no task in the order reads a result after the present one.
    fn is_spent(&self, root: usize) -> bool {
        self.graph.ends[root].is_some_and(|end| end <= self.place)
    }

    /// Whether a result is not needed any more, or dropped here.
    fn is_left(&self, root: usize) -> bool {
        let is_dropped = match self.holds[root] {
            Hold::All => false,
            Hold::Short => self.graph.waits[root] == Some(self.place),
            Hold::None => {
                let uses = &self.graph.uses[root];
                let next = uses.partition_point(|place| *place <= self.place);
                uses.get(next).is_some_and(|next| *next > self.place + 1)
            }
        };
        is_dropped || self.is_spent(root)
    }

    /// Frees a result that nothing reads any more, or that is dropped here.
    fn settle(&mut self, root: usize) {
        if self.there[root] && self.held[root] == 0 && self.is_left(root) {
            self.there[root] = false;
            self.live -= self.graph.tasks[root].size;
        }
    }
}

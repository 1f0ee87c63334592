//! Recomputation: results that wait long for their next use are dropped, and computed again just before it, so that fewer
//! bytes are live.
//!
//! What is dropped is a set of results. Each is dropped at the beginning of its longest wait in the order of execution;
//! before the task that ends the wait, it is computed again, with operands that were dropped as well. These are then kept
//! for their own uses, so that the time of a set is mostly the sum over its members, as for the backward pass of a
//! network with checkpoints (Griewank and Walther, 2000; Chen et al., 2016). A set is grown one by one: of the results
//! that wait while most bytes are live, the one is added with which a simulation loses most bytes for the time that it
//! adds. So one growth gives a set for each number of bytes. It finds no optimum, but takes any graph, and a second
//! for thousands of tasks.

use super::order::{Task, roots};
use crate::tensor::Device;

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

/// The candidates with the least time for each byte are simulated.
const CANDIDATES: usize = 24;
/// The most results that are computed for one another before a task. More would need a deep stack.
const DEEPEST: usize = 2000;
/// The most runs for each task. Where several results of a chain are dropped at one time, each may need all others.
const MOST: usize = 4;

/// A set of results to drop, which grows, with its simulation.
pub(crate) struct Recomputation {
    graph: TaskGraph,
    dropped: Vec<bool>,
    /// The members in the order in which they were added, each with the peak of the set up to it.
    grown: Vec<(usize, usize)>,
    /// The simulation of the whole set; `None` if nothing more can be dropped.
    last: Option<Simulated>,
    /// The peak without any drop.
    peak: usize,
}

impl Recomputation {
    /// Begins with nothing dropped. `order` has the tasks that are no views, in an order in which operands come first.
    /// `None` where results lie on several devices.
    pub(crate) fn new(tasks: Vec<Task>, seconds: Vec<f64>, order: Vec<usize>) -> Option<Self> {
        if tasks.iter().any(|task| task.device != Device::Host) {
            return None;
        }
        let graph = TaskGraph::new(tasks, seconds, order);
        let dropped = vec![false; graph.tasks.len()];
        let first = Simulation::run(&graph, &dropped)?;
        Some(Self { graph, dropped, grown: Vec::new(), peak: first.runs.peak, last: Some(first) })
    }

    /// Returns runs with at most so many bytes live at a time, as fast as they were found; `None` if none were.
    pub(crate) fn within(&mut self, limit: usize) -> Option<Recomputed> {
        let least = |one: &Self| one.grown.last().map_or(one.peak, |(_, peak)| *peak);
        while least(self) > limit {
            self.grow()?;
        }
        let count = match self.peak <= limit {
            true => 0,
            false => 1 + self.grown.iter().position(|(_, peak)| *peak <= limit)?,
        };
        let mut dropped = vec![false; self.dropped.len()];
        self.grown[..count].iter().for_each(|(member, _)| dropped[*member] = true);
        let mut best = Simulation::run(&self.graph, &dropped)?.runs;
        // What was added early may not be needed any more. The most expensive member is tried first.
        let mut members: Vec<usize> = self.grown[..count].iter().map(|(member, _)| *member).collect();
        members.sort_by(|a, b| self.graph.seconds[*b].total_cmp(&self.graph.seconds[*a]).then(a.cmp(b)));
        for member in members {
            dropped[member] = false;
            match Simulation::run(&self.graph, &dropped) {
                Some(Simulated { runs, .. }) if runs.peak <= limit && runs.seconds <= best.seconds => {
                    best = runs
                }
                _ => dropped[member] = true,
            }
        }
        Some(best)
    }

    /// Adds a result to the set; `None` if none makes the peak lower.
    fn grow(&mut self) -> Option<()> {
        let last = self.last.take()?;
        let price = |root: &usize| {
            #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
            let bytes = self.graph.tasks[*root].size as f64;
            self.graph.seconds[*root] / bytes
        };
        let can = |root: &usize| !self.dropped[*root] && self.graph.waits[*root].is_some();
        let mut candidates: Vec<usize> = last.waiting.iter().copied().filter(can).collect();
        candidates.sort_by(|a, b| price(a).total_cmp(&price(b)).then(a.cmp(b)));
        let mut best: Option<(f64, usize, Simulated)> = None;
        for root in candidates.into_iter().take(CANDIDATES) {
            self.dropped[root] = true;
            let simulated = Simulation::run(&self.graph, &self.dropped);
            self.dropped[root] = false;
            let Some(next) = simulated.filter(|next| next.runs.peak <= last.runs.peak) else { continue };
            let added = (next.runs.seconds - last.runs.seconds).max(0.0);
            // One with the same peak may be the first of several that are needed. It comes after all others.
            #[allow(clippy::cast_precision_loss)]
            let price = match last.runs.peak - next.runs.peak {
                0 => f64::MAX,
                less => added / less as f64,
            };
            if best.as_ref().is_none_or(|(least, ..)| price < *least) {
                best = Some((price, root, next));
            }
        }
        let (_, root, next) = best?;
        self.dropped[root] = true;
        self.grown.push((root, next.runs.peak));
        self.last = Some(next);
        Some(())
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
        for (place, task) in order.iter().enumerate() {
            for root in &reads[*task] {
                let before = last[*root].unwrap_or(place);
                longest[*root] = longest[*root].max((place - before, usize::MAX - before));
                last[*root] = Some(place);
            }
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
        Self { waits: waits.collect(), tasks, seconds, order, roots, reads, ends }
    }
}

/// The runs that a set of results to drop leads to.
struct Simulated {
    runs: Recomputed,
    /// The results that are live while most bytes are, and that the task which runs then does not need.
    waiting: Vec<usize>,
}

/// A run of the tasks.
struct Simulation<'a> {
    graph: &'a TaskGraph,
    dropped: &'a [bool],
    /// The place in the order of the task that is run, or for which others are.
    place: usize,
    live: usize,
    /// The results that are live.
    there: Vec<bool>,
    /// How many tasks in progress need each result.
    held: Vec<usize>,
    /// How often each task was run, and for each view, of which run of its root it was made last.
    times: Vec<usize>,
    found: Simulated,
}

impl<'a> Simulation<'a> {
    /// Runs all tasks; `None` if that takes far too many runs.
    fn run(graph: &'a TaskGraph, dropped: &'a [bool]) -> Option<Simulated> {
        let count = graph.tasks.len();
        let runs = Recomputed { runs: Vec::with_capacity(count), seconds: 0.0, peak: 0 };
        let mut simulation = Self {
            graph,
            dropped,
            place: 0,
            live: 0,
            there: vec![false; count],
            held: vec![0; count],
            times: vec![0; count],
            found: Simulated { runs, waiting: Vec::new() },
        };
        // Views of inputs and of constants take no room, and stay.
        for (task, Task { size, alias_of, inputs, .. }) in graph.tasks.iter().enumerate() {
            if *size == 0 && alias_of.is_none() && inputs.is_empty() {
                simulation.times[task] = 1;
                simulation.found.runs.runs.push(task);
            }
        }
        for (place, task) in graph.order.iter().enumerate() {
            simulation.place = place;
            simulation.compute(*task, 0)?;
        }
        // Views that nothing reads may still be outputs.
        (0..count).filter(|task| graph.tasks[*task].output).for_each(|task| simulation.view(task));
        Some(simulation.found)
    }

    /// Runs a task, after those whose results it needs again.
    fn compute(&mut self, task: usize, depth: usize) -> Option<()> {
        let graph = self.graph;
        if depth > DEEPEST || self.found.runs.runs.len() > MOST * graph.tasks.len() {
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
        let free = |root: &usize| self.there[*root] && self.held[*root] == 1 && self.is_spent(*root);
        let reused = in_place.iter().map(|operand| graph.roots[*operand]).find(free);
        let freed = reused.map_or(0, |root| graph.tasks[root].size);
        let live = self.live + size - freed;
        if live + scratch > self.found.runs.peak {
            self.found.runs.peak = live + scratch;
            let waits = |root: &usize| self.there[*root] && self.held[*root] == 0;
            self.found.waiting = (0..self.there.len()).filter(waits).collect();
        }
        self.live = live;
        if let Some(root) = reused {
            self.there[root] = false;
        }
        self.there[task] = size > 0;
        graph.tasks[task].inputs.iter().for_each(|input| self.view(*input));
        self.times[task] += 1;
        self.found.runs.runs.push(task);
        self.found.runs.seconds += graph.seconds[task];
        for root in reads {
            self.held[*root] -= 1;
            self.settle(*root);
        }
        self.settle(task);
        Some(())
    }

    /// Makes a view again, if it is none of the latest result of its root.
    fn view(&mut self, task: usize) {
        let Some(of) = self.graph.tasks[task].alias_of else { return };
        self.view(of);
        let latest = self.times[self.graph.roots[task]];
        if self.times[task] != latest {
            self.times[task] = latest;
            self.found.runs.runs.push(task);
        }
    }

    /// Whether no task in the order reads a result after the present one.
    fn is_spent(&self, root: usize) -> bool {
        self.graph.ends[root].is_some_and(|end| end <= self.place)
    }

    /// Frees a result that nothing reads any more, or that is dropped here.
    fn settle(&mut self, root: usize) {
        let is_dropped = self.dropped[root] && self.graph.waits[root] == Some(self.place);
        if self.there[root] && self.held[root] == 0 && (is_dropped || self.is_spent(root)) {
            self.there[root] = false;
            self.live -= self.graph.tasks[root].size;
        }
    }
}

//! Landmarks: sets of candidates of which every selection contains at least one, and the lower bound that follows
//! from them.
//!
//! If a class is a fact, and a candidate an action that makes it from the facts that it reads, a selection is a plan
//! of a delete-free planning task. The bound is the heuristic LM-cut of Helmert and Domshlak (Landmarks, Critical
//! Paths and Abstractions: What's the Difference Anyway?, ICAPS 2009). The cheapest candidate of each landmark is
//! paid, and its cost is subtracted from all candidates of that landmark, until the remaining costs allow a selection
//! for nothing. The remaining cost of a candidate is what it adds to the bound.

use super::node::{Key, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A lower bound, and the costs that remain.
#[derive(Clone, Debug)]
pub(super) struct Landmarks {
    /// No selection costs less.
    pub bound: f64,
    /// For each class and candidate: every selection that contains it costs at least the bound plus this.
    pub beyond: Vec<Vec<f64>>,
    /// The number of visits that were made.
    pub steps: usize,
}

/// Computes the bound by landmarks. After `limit` visits of candidates it ends early, with a lower but still valid
/// bound.
pub(super) fn landmarks(classes: &[Vec<Node>], roots: &[u32], limit: usize) -> Landmarks {
    let mut task = Task::new(classes, roots);
    task.settle();
    let mut bound = 0.0;
    while task.height[task.goal] > 0.0 && task.steps < limit {
        bound += task.pay();
    }
    let mut beyond = Vec::with_capacity(classes.len());
    let mut at = 0;
    for nodes in classes {
        let left = |node: usize| task.cost[node] + task.deepest(node).map_or(0.0, |(height, _)| height);
        // The most expensive class that a candidate reads adds to its remaining cost as far as no landmark paid for
        // it.
        beyond.push((at..at + nodes.len()).map(left).collect());
        at += nodes.len();
    }
    Landmarks { bound, beyond, steps: task.steps }
}

/// The support of a candidate that reads nothing.
const START: u32 = u32::MAX;

struct Task<'a> {
    /// The class that stands for all roots. One additional candidate makes it from them.
    goal: usize,
    children: Vec<&'a [u32]>,
    /// The class of each candidate.
    class: Vec<u32>,
    /// The candidates of each class begin at this index and end before the next one.
    first: Vec<usize>,
    /// The candidates that read each class.
    readers: Vec<Vec<u32>>,
    /// The remaining cost of each candidate.
    cost: Vec<f64>,
    /// The cost of each class if a candidate pays only for the most expensive class that it reads.
    height: Vec<f64>,
    /// The most expensive class that each candidate reads.
    support: Vec<u32>,
    /// The candidates that read nothing.
    leaves: Vec<u32>,
    heap: BinaryHeap<Reverse<(Key, u32)>>,
    /// For each class, the last cut that reached it, from either side.
    seen: Vec<u32>,
    cuts: u32,
    steps: usize,
}

impl<'a> Task<'a> {
    fn new(classes: &'a [Vec<Node>], roots: &'a [u32]) -> Self {
        let goal = classes.len();
        let mut task = Self {
            goal,
            children: Vec::new(),
            class: Vec::new(),
            first: Vec::new(),
            readers: vec![Vec::new(); goal + 1],
            cost: Vec::new(),
            height: vec![f64::INFINITY; goal + 1],
            support: Vec::new(),
            leaves: Vec::new(),
            heap: BinaryHeap::new(),
            seen: vec![0; goal + 1],
            cuts: 0,
            steps: 0,
        };
        let goals = [(goal, 0.0, roots)];
        let all = classes.iter().enumerate();
        let all = all
            .flat_map(|(class, nodes)| nodes.iter().map(move |node| (class, node.cost, &node.children[..])));
        for (class, cost, children) in all.chain(goals) {
            let node = task.class.len() as u32;
            task.class.push(class as u32);
            task.cost.push(cost);
            children.iter().for_each(|&child| task.readers[child as usize].push(node));
            task.children.push(children);
            if children.is_empty() {
                task.leaves.push(node);
            }
        }
        let sizes = classes.iter().map(Vec::len).chain([1]);
        task.first = std::iter::once(0)
            .chain(sizes.scan(0, |end, size| {
                *end += size;
                Some(*end)
            }))
            .collect();
        task.support = vec![START; task.class.len()];
        task
    }

    /// Returns the height and the number of the most expensive class that a candidate reads.
    fn deepest(&self, node: usize) -> Option<(f64, u32)> {
        let children = self.children[node].iter().map(|&child| (self.height[child as usize], child));
        children.reduce(|best, one| if one.0 > best.0 { one } else { best })
    }

    /// Computes the heights by Dijkstra's algorithm.
    fn settle(&mut self) {
        let mut waiting: Vec<u32> = self.children.iter().map(|children| children.len() as u32).collect();
        let mut done = vec![false; self.height.len()];
        for node in (0..self.class.len()).filter(|&node| waiting[node] == 0) {
            self.offer(node, self.cost[node]);
        }
        while let Some(Reverse((Key(height), class))) = self.heap.pop() {
            if std::mem::replace(&mut done[class as usize], true) {
                continue;
            }
            for at in 0..self.readers[class as usize].len() {
                let node = self.readers[class as usize][at] as usize;
                waiting[node] -= 1;
                if waiting[node] == 0 {
                    // Classes are settled in the order of their heights, so this is the highest.
                    self.support[node] = class;
                    self.offer(node, self.cost[node] + height);
                }
            }
        }
    }

    /// Lowers the height of a candidate's class, if the candidate offers a lower one.
    fn offer(&mut self, node: usize, height: f64) {
        let class = self.class[node];
        if height < self.height[class as usize] {
            self.height[class as usize] = height;
            self.heap.push(Reverse((Key(height), class)));
        }
    }

    /// Lowers the heights that depend on classes that became cheaper.
    fn lower(&mut self) {
        while let Some(Reverse((Key(height), class))) = self.heap.pop() {
            if height > self.height[class as usize] {
                continue;
            }
            for at in 0..self.readers[class as usize].len() {
                let node = self.readers[class as usize][at] as usize;
                if self.support[node] == class {
                    self.steps += self.children[node].len();
                    let (below, support) = self.deepest(node).unwrap_or((0.0, START));
                    self.support[node] = support;
                    self.offer(node, self.cost[node] + below);
                }
            }
        }
    }

    /// Pays for one landmark and returns its cost. The landmark consists of the candidates that lead into the classes
    /// from which the goal can be reached at no further cost.
    fn pay(&mut self) -> f64 {
        self.cuts += 2;
        let (near, far) = (self.cuts, self.cuts + 1);
        let mut stack = vec![self.goal as u32];
        self.seen[self.goal] = near;
        while let Some(class) = stack.pop() {
            let class = class as usize;
            self.steps += self.first[class + 1] - self.first[class];
            for node in self.first[class]..self.first[class + 1] {
                let support = self.support[node];
                if self.cost[node] == 0.0 && support != START && self.seen[support as usize] != near {
                    self.seen[support as usize] = near;
                    stack.push(support);
                }
            }
        }
        // The cut: those candidates that can be reached from the start through other classes.
        let mut cut = Vec::new();
        let mut visit = |task: &mut Self, node: usize, stack: &mut Vec<u32>| {
            let class = task.class[node] as usize;
            if task.seen[class] == near {
                cut.push(node);
            } else if std::mem::replace(&mut task.seen[class], far) != far {
                stack.push(class as u32);
            }
        };
        for at in 0..self.leaves.len() {
            let node = self.leaves[at] as usize;
            visit(&mut *self, node, &mut stack);
        }
        while let Some(class) = stack.pop() {
            self.steps += self.readers[class as usize].len();
            for at in 0..self.readers[class as usize].len() {
                let node = self.readers[class as usize][at] as usize;
                if self.support[node] == class {
                    visit(&mut *self, node, &mut stack);
                }
            }
        }
        let price = cut.iter().map(|&node| self.cost[node]).fold(f64::INFINITY, f64::min);
        for node in cut {
            self.cost[node] -= price;
            let below = self.deepest(node).map_or(0.0, |(height, _)| height);
            self.offer(node, self.cost[node] + below);
        }
        self.lower();
        price
    }
}

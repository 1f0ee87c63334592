//! Programs as tasks, to compare orders of execution: random trees of products, random series-parallel graphs,
//! randomly wired networks, and a cell that was found by a search.
#![allow(dead_code)]

use super::seeded::Random;
use ovolo::memory::Task;

/// Bytes are multiples of the alignment of buffers.
const ALIGN: usize = 64;

fn task(size: usize, inputs: Vec<usize>) -> Task {
    Task { size, inputs, ..Task::default() }
}

/// A random tree of products of matrices, with this number of products. An operand is another product, or an input of
/// the program or a constant, which are not in the arena. The lengths of the sides are powers of two up to 256.
pub fn products(random: &mut Random, steps: usize) -> Vec<Task> {
    fn product(random: &mut Random, steps: usize, sides: [usize; 2], tasks: &mut Vec<Task>) -> Option<usize> {
        let others = steps.checked_sub(1)?;
        let left = random.below(others + 1);
        let inner = side(random);
        let one = product(random, left, [sides[0], inner], tasks);
        let other = product(random, others - left, [inner, sides[1]], tasks);
        let size = (4 * sides[0] * sides[1]).next_multiple_of(ALIGN);
        tasks.push(task(size, one.into_iter().chain(other).collect()));
        Some(tasks.len() - 1)
    }
    fn side(random: &mut Random) -> usize {
        1 << random.below(9)
    }
    let mut tasks = Vec::new();
    let sides = [side(random), side(random)];
    let root = product(random, steps, sides, &mut tasks);
    root.into_iter().for_each(|root| tasks[root].output = true);
    tasks
}

/// A random binary tree in which every operand is computed, with this number of leaves.
pub fn computed_leaves(random: &mut Random, leaves: usize) -> Vec<Task> {
    let size = |random: &mut Random| ALIGN * (1 + random.below(1000));
    let mut tasks: Vec<Task> = (0..leaves).map(|_| task(size(random), Vec::new())).collect();
    let mut open: Vec<usize> = (0..leaves).collect();
    while open.len() > 1 {
        let operands = [0; 2].map(|_| open.swap_remove(random.below(open.len())));
        open.push(tasks.len());
        tasks.push(task(size(random), operands.to_vec()));
    }
    tasks.iter_mut().rev().take(1).for_each(|task| task.output = true);
    tasks
}

/// A random series-parallel graph with this number of steps. Some steps may work in place, and some have scratch.
pub fn series_parallel(random: &mut Random, steps: usize) -> Vec<Task> {
    /// Adds steps that read the ends of those before them, and returns their ends.
    fn add(random: &mut Random, steps: usize, inputs: Vec<usize>, tasks: &mut Vec<Task>) -> Vec<usize> {
        if steps == 1 {
            let mut one = task(ALIGN * (1 + random.below(256)), inputs);
            if let [input] = one.inputs[..]
                && random.below(3) == 0
            {
                (one.size, one.in_place) = (tasks[input].size, vec![input]);
            }
            one.scratch = if random.below(5) == 0 { ALIGN * random.below(64) } else { 0 };
            tasks.push(one);
            return vec![tasks.len() - 1];
        }
        let first = 1 + random.below(steps - 1);
        if random.below(2) == 0 {
            let middle = add(random, first, inputs, tasks);
            return add(random, steps - first, middle, tasks);
        }
        let mut ends = add(random, first, inputs.clone(), tasks);
        ends.extend(add(random, steps - first, inputs, tasks));
        ends
    }
    let mut tasks = Vec::new();
    for end in add(random, steps, Vec::new(), &mut tasks) {
        tasks[end].output = true;
    }
    tasks
}

/// A randomly wired network of these nodes and an output: a graph of Watts and Strogatz with four neighbours that are
/// rewired with probability 0.75, whose edges lead from lower to higher numbers (Xie et al., "Exploring Randomly Wired
/// Neural Networks for Image Recognition", ICCV 2019, where it is the best of the families). `size` returns the bytes
/// of a node.
pub fn randomly_wired(random: &mut Random, nodes: usize, size: &dyn Fn(&mut Random) -> usize) -> Vec<Task> {
    let mut linked = vec![vec![false; nodes]; nodes];
    let link = |linked: &mut Vec<Vec<bool>>, one: usize, other: usize, on: bool| {
        linked[one][other] = on;
        linked[other][one] = on;
    };
    for one in 0..nodes {
        (1..=2).for_each(|far| link(&mut linked, one, (one + far) % nodes, true));
    }
    for far in 1..=2 {
        for one in 0..nodes {
            let other = (one + far) % nodes;
            if random.unit() < 0.75 && linked[one][other] {
                let free: Vec<usize> = (0..nodes).filter(|to| *to != one && !linked[one][*to]).collect();
                let to = free[random.below(free.len())];
                link(&mut linked, one, other, false);
                link(&mut linked, one, to, true);
            }
        }
    }
    let inputs = |at: usize| (0..at).filter(|input| linked[*input][at]).collect();
    let mut tasks: Vec<Task> = (0..nodes).map(|at| task(size(random), inputs(at))).collect();
    let ends = (0..nodes).filter(|at| !tasks.iter().any(|task| task.inputs.contains(at)));
    let last = task(size(random), ends.collect());
    tasks.push(Task { output: true, ..last });
    tasks
}

/// Two normal cells of DARTS (second order) one after the other, as they are run for ImageNet at 14 x 14 with 192
/// channels for each of four nodes (Liu et al., "DARTS: Differentiable Architecture Search", ICLR 2019, figure 4). A
/// separable convolution is a depthwise and a pointwise one, twice; a `relu` belongs to the step after it. The nodes
/// are copied into the result of a cell.
pub fn darts() -> Vec<Task> {
    const NODE: usize = 4 * 14 * 14 * 192;
    // The operations of each node: what it reads, and the number of steps (none for a skip connection).
    const NORMAL: [[(usize, usize); 2]; 4] =
        [[(0, 4), (1, 4)], [(0, 4), (1, 4)], [(1, 4), (0, 0)], [(0, 0), (2, 2)]];
    let mut tasks = vec![task(4 * NODE, Vec::new()), task(4 * NODE, Vec::new())];
    let mut ends = [0, 1];
    for _ in 0..2 {
        let add = |tasks: &mut Vec<Task>, one: Task| {
            tasks.push(one);
            tasks.len() - 1
        };
        let mut nodes: Vec<usize> = ends.map(|end| add(&mut tasks, task(NODE, vec![end]))).to_vec();
        for operations in NORMAL {
            let operands = operations.map(|(from, steps)| {
                (0..steps).fold(nodes[from], |value, _| add(&mut tasks, task(NODE, vec![value])))
            });
            let sum = Task { in_place: operands.to_vec(), ..task(NODE, operands.to_vec()) };
            nodes.push(add(&mut tasks, sum));
        }
        ends = [ends[1], add(&mut tasks, task(4 * NODE, nodes[2..].to_vec()))];
    }
    tasks[ends[1]].output = true;
    tasks
}

/// The most bytes that are live at one time in an order of tasks, without operands that are computed within results.
pub fn peak(tasks: &[Task], order: &[usize]) -> usize {
    let root = |mut at: usize| {
        while let Some(of) = tasks[at].alias_of {
            at = of;
        }
        at
    };
    // The last position that needs the buffer of each task.
    let mut last = vec![0; tasks.len()];
    for (position, &at) in order.iter().enumerate() {
        last[root(at)] = last[root(at)].max(position);
        tasks[at].inputs.iter().for_each(|input| last[root(*input)] = position);
    }
    (0..tasks.len()).filter(|at| tasks[*at].output).for_each(|at| last[root(at)] = tasks.len());
    let live = |(position, &at): (usize, &usize)| {
        let before = order[..position].iter().filter(|one| last[**one] >= position);
        let before: usize = before.map(|one| tasks[*one].size).sum();
        let taken = tasks[at].in_place.iter().any(|operand| last[root(*operand)] == position);
        before + tasks[at].scratch + if taken { 0 } else { tasks[at].size }
    };
    order.iter().enumerate().map(live).max().unwrap_or(0)
}

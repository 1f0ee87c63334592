//! Tests of `src/memory/search.rs`: orders that are compared with all orders, and bounds.

use crate::common::seeded::Random;
use crate::common::tasks::{computed_leaves, darts, products, randomly_wired, series_parallel};
use ovolo::memory::{Order, Search, Task, execution_orders};
use ovolo::tensor::Device;
use std::collections::BTreeMap;

/// Whether a task is done, for each.
type Done = Vec<bool>;

/// The bytes that are live after some tasks: results that another task reads, and outputs. No task here is a view.
fn live(tasks: &[Task], done: &Done) -> usize {
    let read = |at: usize| tasks.iter().zip(done).any(|(task, done)| !done && task.inputs.contains(&at));
    let kept = |at: &usize| done[*at] && (tasks[*at].output || read(*at));
    (0..tasks.len()).filter(kept).map(|at| tasks[at].size).sum()
}

/// The bytes that are live while a task runs.
fn during(tasks: &[Task], done: &Done, at: usize) -> usize {
    let task = &tasks[at];
    let others = |operand: usize| {
        (0..tasks.len()).any(|other| other != at && !done[other] && tasks[other].inputs.contains(&operand))
    };
    let in_place = task.in_place.iter().any(|operand| !tasks[*operand].output && !others(*operand));
    live(tasks, done) + task.scratch + if in_place { 0 } else { task.size }
}

fn ready(tasks: &[Task], done: &Done) -> Vec<usize> {
    let inputs = |at: usize| tasks[at].inputs.iter().all(|input| done[*input]);
    (0..tasks.len()).filter(|at| !done[*at] && inputs(*at)).collect()
}

/// The peak of an order.
fn peak(tasks: &[Task], order: &[usize]) -> usize {
    let mut done = vec![false; tasks.len()];
    let mut most = 0;
    for &at in order {
        assert!(ready(tasks, &done).contains(&at), "{at} has what it reads");
        most = most.max(during(tasks, &done, at));
        done[at] = true;
    }
    assert!(done.iter().all(|done| *done));
    most
}

/// The least peak of all orders from here on, by trying every task that may come next.
fn least(tasks: &[Task], done: &mut Done, known: &mut BTreeMap<Done, usize>) -> usize {
    if let Some(bytes) = known.get(done) {
        return *bytes;
    }
    let next = ready(tasks, done).into_iter().map(|at| {
        let now = during(tasks, done, at);
        done[at] = true;
        let rest = least(tasks, done, known);
        done[at] = false;
        now.max(rest)
    });
    let bytes = next.min().unwrap_or(0);
    known.insert(done.clone(), bytes);
    bytes
}

/// The least peak of an order's candidates, and the bound for all orders.
fn found(order: &dyn Order, tasks: &[Task]) -> (usize, usize) {
    let candidates = order.candidates(tasks);
    let best = candidates.orders.iter().map(|candidate| peak(tasks, &candidate.tasks)).min();
    (best.unwrap(), candidates.least.first().map_or(0, |(_, bytes)| *bytes))
}

/// A random graph of which some steps may work in place, and some have scratch.
fn random_graph(seed: u64) -> Vec<Task> {
    let mut random = Random(seed);
    let mut tasks = Vec::<Task>::new();
    for at in 0..3 + random.below(10) {
        let mut inputs: Vec<usize> = (0..random.below(4.min(at + 1))).map(|_| random.below(at)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let mut one = Task { size: 64 * (1 + random.below(20)), inputs, ..Task::default() };
        if random.below(2) == 0
            && let Some(&operand) = one.inputs.first()
        {
            one.size = tasks[operand].size;
            one.in_place = one.inputs.iter().copied().filter(|at| tasks[*at].size == one.size).collect();
        }
        one.scratch = if random.below(4) == 0 { 64 * random.below(20) } else { 0 };
        one.output = random.below(6) == 0;
        tasks.push(one);
    }
    tasks
}

#[test]
fn no_order_of_a_small_graph_is_better_than_what_is_found() {
    let mut better = 0;
    for seed in 0..600 {
        let tasks = random_graph(seed);
        let exhaustive = least(&tasks, &mut vec![false; tasks.len()], &mut BTreeMap::new());
        assert_eq!(found(&Search::DEFAULT, &tasks), (exhaustive, exhaustive), "seed {seed}: {tasks:?}");
        let orders = execution_orders();
        better += usize::from(found(&**orders.get("peak").unwrap(), &tasks).0 > exhaustive);
    }
    assert!(better > 100, "{better}");
}

#[test]
fn trees_and_series_parallel_graphs_of_up_to_forty_steps_are_ordered_optimally() {
    let orders = execution_orders();
    let heuristic = &**orders.get("peak").unwrap();
    let (mut better, mut small) = (0, 0);
    for seed in 0..500 {
        let mut random = Random(seed);
        let steps = 2 + random.below(39);
        let tasks = match seed % 3 {
            0 => products(&mut random, steps),
            1 => computed_leaves(&mut random, steps.div_ceil(2)),
            _ => series_parallel(&mut random, steps),
        };
        let (peak, bound) = found(&Search::DEFAULT, &tasks);
        assert_eq!(peak, bound, "seed {seed}: {steps} steps");
        better += usize::from(found(heuristic, &tasks).0 > peak);
        if tasks.len() <= 12 {
            let exhaustive = least(&tasks, &mut vec![false; tasks.len()], &mut BTreeMap::new());
            assert_eq!(peak, exhaustive, "seed {seed}: {steps} steps");
            small += 1;
        }
    }
    assert!(better > 250 && small > 100, "{better} {small}");
}

#[test]
fn randomly_wired_networks_of_sixty_four_nodes_are_within_five_percent() {
    for seed in 0..4 {
        let tasks = randomly_wired(&mut Random(seed), 64, &|random| 64 * (1 + random.below(100)));
        let (peak, bound) = found(&Search { states: 4_000_000 }, &tasks);
        assert!(bound <= peak && peak * 100 <= bound * 105, "seed {seed}: {peak} {bound}");
    }
}

#[test]
fn a_search_without_states_keeps_the_heuristics_and_a_valid_bound() {
    for seed in 0..40 {
        let tasks = randomly_wired(&mut Random(seed), 16, &|random| 64 * (1 + random.below(100)));
        let orders = execution_orders();
        let heuristic = found(&**orders.get("peak").unwrap(), &tasks).0;
        let (none, some, all) = (0, 40, Search::DEFAULT.states);
        let [none, some, all] = [none, some, all].map(|states| found(&Search { states }, &tasks));
        assert_eq!(none.0, heuristic, "seed {seed}");
        assert!(all.0 <= some.0 && some.0 <= none.0, "seed {seed}");
        assert!(none.1 <= some.1 && some.1 <= all.1 && all.1 == all.0, "seed {seed}");
    }
}

#[test]
fn cells_of_darts_are_ordered_optimally() {
    let tasks = darts();
    let (peak, bound) = found(&Search::DEFAULT, &tasks);
    assert_eq!(peak, bound);
    let orders = execution_orders();
    assert!(found(&**orders.get("peak").unwrap(), &tasks).0 > peak);
    assert_eq!(Search::DEFAULT.candidates(&tasks), Search::DEFAULT.candidates(&tasks));
}

#[test]
fn a_program_of_very_many_steps_has_a_bound() {
    let mut tasks: Vec<Task> = (0..5000_usize)
        .map(|at| Task { size: 64, inputs: at.checked_sub(1).into_iter().collect(), ..Task::default() })
        .collect();
    tasks[4000].scratch = 640;
    let order = execution_orders();
    let candidates = order.get("search").unwrap().candidates(&tasks);
    assert_eq!(candidates.orders[0].tasks, (0..5000).collect::<Vec<usize>>());
    assert_eq!(candidates.least, [(Device::Host, 64 + 64 + 640)]);
}

//! Tests of `src/memory/reuse.rs`.

use ovolo::memory::{Candidate, Task, execution_orders};

const MIB: usize = 1 << 20;

#[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
fn to_f64(bytes: usize) -> f64 {
    bytes as f64
}

/// The share of the eight doublings from 256 KiB to 64 MiB that a distance in bytes covers.
fn afar(distance: usize) -> f64 {
    ((to_f64(distance).log2() - 18.0) / 8.0).clamp(0.0, 1.0)
}

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

fn candidates(tasks: &[Task]) -> Vec<Candidate> {
    execution_orders().get("reuse").unwrap().candidates(tasks).orders
}

/// The order for reuse, which is the last candidate.
fn order(tasks: &[Task]) -> Candidate {
    candidates(tasks).pop().unwrap()
}

#[test]
fn a_time_step_begins_with_the_weights_that_the_one_before_it_ended_with() {
    assert_eq!(order(&cell(3, 3, MIB)).tasks, [0, 1, 2, 3, 6, 5, 4, 7, 8, 9, 10, 11]);
}

#[test]
fn what_is_read_again_counts_by_what_was_read_between() {
    let tasks = cell(4, 2, MIB);
    let given = |tasks: &[Task]| candidates(tasks)[0].clone();
    assert_eq!(given(&tasks).tasks, (0..tasks.len()).collect::<Vec<usize>>());
    // Each of the four weights of 1 MiB is read again after 4 MiB. This is four of the eight doublings from 256
    // KiB to 64 MiB.
    assert_eq!(given(&tasks).reread, 4 * MIB / 2);
    // The distances are one, two, three and four MiB: 2, 3, log2(12) and 4 of the eight doublings.
    let expected = (2.0 + 3.0 + 12_f64.log2() + 4.0) / 8.0 * to_f64(MIB);
    assert!((to_f64(order(&tasks).reread) - expected).abs() <= 1.0);
    // What every cache holds costs nothing, and what no cache holds is read again completely.
    let of = |size| (given(&cell(2, 2, size)).reread, 2 * size);
    assert_eq!(of(1 << 17).0, 0);
    assert!(matches!(of(1 << 26), (bytes, all) if bytes == all));
}

#[test]
fn no_order_is_for_reuse_where_nothing_is_read_twice() {
    let [peak, reuse] =
        ["peak", "reuse"].map(|name| execution_orders().get(name).unwrap().candidates(&cell(4, 1, MIB)));
    assert_eq!(peak, reuse);
    assert!(reuse.orders.iter().all(|candidate| candidate.reread == 0));
}

/// Random tasks that read earlier tasks and constants.
fn random(seed: u64) -> Vec<Task> {
    let mut stream = crate::common::seeded::Random(seed);
    let mut below = |limit: usize| stream.below(limit);
    let size = |constant: usize| MIB >> (constant % 4);
    (0..40)
        .map(|at| Task {
            size: 64 * below(4),
            inputs: (0..below(3)).filter(|_| at > 0).map(|_| below(at.max(1))).collect(),
            constants: (0..below(3)).map(|_| below(9)).map(|constant| (constant, size(constant))).collect(),
            ..Task::default()
        })
        .collect()
}

#[test]
fn orders_are_topological_and_distances_are_what_a_stack_says() {
    for seed in 0..200 {
        let tasks = random(seed);
        let Candidate { tasks: order, reread } = order(&tasks);
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
        assert!((to_f64(reread) - bytes).abs() <= 1.0, "seed {seed}");
    }
}

use super::{Recomputation, Recomputed, Simulation};
use crate::memory::Task;

/// A network of so many layers with its backward pass: layer `i` needs the result of layer `i - 1`, and its gradient that
/// result and the gradient after it. Results have these bytes.
fn network(bytes: &[usize]) -> Vec<Task> {
    let layers = bytes.len();
    let task = |size: usize, inputs: Vec<usize>| Task { size, inputs, ..Task::default() };
    let mut tasks: Vec<Task> =
        (0..layers).map(|at| task(bytes[at], at.checked_sub(1).into_iter().collect())).collect();
    for at in (0..layers).rev() {
        let inputs = vec![at, tasks.len() - 1];
        tasks.push(task(bytes[at], inputs));
    }
    tasks.last_mut().unwrap().output = true;
    tasks
}

/// The most bytes that are live, and the time, by where each result is made and read last.
fn measured(tasks: &[Task], seconds: &[f64], runs: &[usize]) -> (usize, f64) {
    let mut latest = vec![None; tasks.len()];
    let mut live = vec![(0, 0); runs.len()];
    for (at, task) in runs.iter().enumerate() {
        for input in &tasks[*task].inputs {
            let made: usize =
                latest[*input].unwrap_or_else(|| panic!("{runs:?}: {task} reads {input} before it is made"));
            live[made].1 = at;
        }
        latest[*task] = Some(at);
        live[at] = (at, at);
    }
    for (task, made) in tasks.iter().zip(latest) {
        if let (true, Some(made)) = (task.output, made) {
            live[made].1 = runs.len();
        }
    }
    let at = |place: usize| {
        let there = live.iter().zip(runs).filter(move |((from, to), _)| (*from..=*to).contains(&place));
        there.map(|(_, task)| tasks[*task].size).sum::<usize>()
    };
    let most = (0..runs.len()).map(at).max().unwrap();
    (most, runs.iter().map(|task| seconds[*task]).sum())
}

/// Numbers below a bound that look random.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    }
}

/// The network of a seed: the bytes and the seconds of its tasks.
fn drawn(seed: u64, layers: usize) -> (Vec<Task>, Vec<f64>) {
    let mut next = numbers(seed);
    let bytes: Vec<usize> = (0..layers).map(|_| 64 * (1 + next(9))).collect();
    let tasks = network(&bytes);
    #[allow(clippy::cast_precision_loss)]
    let seconds = tasks.iter().map(|_| (1 + next(9)) as f64).collect();
    (tasks, seconds)
}

fn begin(tasks: &[Task], seconds: &[f64]) -> Recomputation {
    Recomputation::new(tasks.to_vec(), seconds.to_vec(), (0..tasks.len()).collect()).unwrap()
}

#[test]
fn bytes_and_time_are_those_of_the_runs() {
    let mut less = 0;
    for seed in 0..50 {
        let (tasks, seconds) = drawn(seed, 24);
        let mut recomputation = begin(&tasks, &seconds);
        let whole = recomputation.within(usize::MAX).unwrap();
        assert_eq!(whole.runs, (0..tasks.len()).collect::<Vec<_>>());
        for percent in [90, 70, 50, 40, 30] {
            let limit = whole.peak * percent / 100;
            let Some(found) = recomputation.within(limit) else { break };
            assert_eq!(measured(&tasks, &seconds, &found.runs), (found.peak, found.seconds), "seed {seed}");
            assert!(found.peak <= limit && found.seconds > whole.seconds);
            // The same again, and from the beginning.
            assert_eq!(recomputation.within(limit).as_ref(), Some(&found));
            assert_eq!(begin(&tasks, &seconds).within(limit).as_ref(), Some(&found));
            less += 1;
        }
    }
    assert!(less > 150, "{less}");
}

#[test]
fn sets_are_near_the_best_of_all() {
    let (mut best, mut sum, mut count) = (0, 0.0, 0);
    for seed in 0..60 {
        let (tasks, seconds) = drawn(seed, 9);
        let mut recomputation = begin(&tasks, &seconds);
        let whole = recomputation.within(usize::MAX).unwrap();
        let waits: Vec<usize> =
            (0..tasks.len()).filter(|task| recomputation.graph.waits[*task].is_some()).collect();
        let all: Vec<Recomputed> = (0..1_usize << waits.len())
            .filter_map(|set| {
                let mut dropped = vec![false; tasks.len()];
                waits.iter().enumerate().for_each(|(at, task)| dropped[*task] = set >> at & 1 == 1);
                Some(Simulation::run(&recomputation.graph, &dropped)?.runs)
            })
            .collect();
        for percent in [85, 70, 60] {
            let limit = whole.peak * percent / 100;
            let least = all.iter().filter(|one| one.peak <= limit).map(|one| one.seconds).reduce(f64::min);
            let found = recomputation.within(limit).map(|found| found.seconds);
            let (Some(least), Some(found)) = (least, found) else {
                assert!(least.is_some() || found.is_none());
                continue;
            };
            assert!(found >= least);
            count += 1;
            best += usize::from(found == least);
            sum += (found - whole.seconds) / (least - whole.seconds);
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let mean = sum / count as f64;
    println!(
        "{best} of {count} have the least time, and what is computed again takes {mean:.3} times the least"
    );
    assert!(count >= 100 && best * 2 >= count && mean < 1.3, "{best} of {count}, {mean}");
}

#[test]
fn what_cannot_be_dropped_is_no_reason_to_go_on() {
    // All bytes are needed at once.
    let tasks = network(&[640]);
    assert_eq!(begin(&tasks, &[1.0, 1.0]).within(1000), None);
    let (tasks, seconds) = drawn(3, 6);
    assert_eq!(begin(&tasks, &seconds).within(64), None);
}

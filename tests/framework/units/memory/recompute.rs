//! Tests of `src/memory/recompute.rs`.

#[allow(dead_code)]
#[path = "../../../../src/memory/order.rs"]
mod order;
#[path = "../../../../src/memory/recompute.rs"]
mod source;

use crate::common::seeded::Random;
use order::Task;
use source::Recomputation;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A network of some layers with its backward pass, with bytes and seconds that are drawn: a layer reads the result of the
/// one before it, and its gradient reads its result and the gradient after it. Seconds are whole numbers.
fn network(seed: u64, layers: usize) -> (Vec<Task>, Vec<f64>) {
    let random = &mut Random(seed);
    let bytes: Vec<usize> = (0..layers).map(|_| 64 * (1 + random.below(9))).collect();
    let task = |size: usize, inputs: Vec<usize>| Task { size, inputs, ..Task::default() };
    let mut tasks: Vec<Task> =
        (0..layers).map(|at| task(bytes[at], at.checked_sub(1).into_iter().collect())).collect();
    for at in (0..layers).rev() {
        let inputs = vec![at, tasks.len() - 1];
        tasks.push(task(bytes[at], inputs));
    }
    tasks.last_mut().unwrap().output = true;
    #[allow(clippy::cast_precision_loss)]
    let seconds = tasks.iter().map(|_| (1 + random.below(9)) as f64).collect();
    (tasks, seconds)
}

fn begin(tasks: &[Task], seconds: &[f64]) -> Recomputation {
    Recomputation::new(tasks, seconds, (0..tasks.len()).collect()).unwrap()
}

/// The most bytes that are live, and the time, by where each result is made and read last.
fn measured(tasks: &[Task], seconds: &[f64], runs: &[usize]) -> (usize, f64) {
    let mut latest = vec![None; tasks.len()];
    let mut live: Vec<(usize, usize)> = Vec::new();
    for (at, task) in runs.iter().enumerate() {
        for input in &tasks[*task].inputs {
            let made: usize =
                latest[*input].unwrap_or_else(|| panic!("{task} reads {input} before it is made"));
            live[made].1 = at;
        }
        latest[*task] = Some(at);
        live.push((at, at));
    }
    for (task, made) in tasks.iter().zip(latest) {
        let made = made.expect("each task runs");
        if task.output {
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

/// The least time of all runs in all orders, by the shortest way between sets of live results and of tasks that were run.
fn least(tasks: &[Task], seconds: &[f64], limit: usize) -> Option<u64> {
    let bytes = |live: u32| {
        (0..tasks.len()).filter(|task| live >> task & 1 == 1).map(|task| tasks[task].size).sum::<usize>()
    };
    let outputs = (0..tasks.len()).filter(|task| tasks[*task].output).fold(0, |set, task| set | 1 << task);
    let mut known: BTreeMap<(u32, u32), u64> = BTreeMap::from([((0, 0), 0)]);
    let mut open = BinaryHeap::from([Reverse((0, 0, 0))]);
    while let Some(Reverse((time, live, done))) = open.pop() {
        if known[&(live, done)] < time {
            continue;
        }
        if done == (1 << tasks.len()) - 1 && live & outputs == outputs {
            return Some(time);
        }
        for (at, task) in tasks.iter().enumerate() {
            let reads = task.inputs.iter().fold(0, |set, input| set | 1_u32 << input);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let (next, time) = match live >> at & 1 == 1 {
                true => ((live & !(1 << at), done), time),
                false if live & reads == reads && bytes(live) + task.size <= limit => {
                    ((live | 1 << at, done | 1 << at), time + seconds[at] as u64)
                }
                false => continue,
            };
            if known.get(&next).is_none_or(|known| time < *known) {
                known.insert(next, time);
                open.push(Reverse((time, next.0, next.1)));
            }
        }
    }
    None
}

#[test]
fn bytes_and_time_are_those_of_the_runs() {
    let mut less = 0;
    for seed in 0..50 {
        let (tasks, seconds) = network(seed, 24);
        let recomputation = begin(&tasks, &seconds);
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
fn the_time_is_near_the_least_of_all_orders() {
    let (mut best, mut sum, mut count) = (0, 0.0, 0);
    for seed in 0..12 {
        let (tasks, seconds) = network(seed, 8);
        let recomputation = begin(&tasks, &seconds);
        let whole = recomputation.within(usize::MAX).unwrap();
        for percent in [90, 80, 70] {
            let limit = whole.peak * percent / 100;
            let found = recomputation.within(limit).map(|found| found.seconds);
            #[allow(clippy::cast_precision_loss)]
            let least = least(&tasks, &seconds, limit).map(|seconds| seconds as f64);
            assert_eq!(found.is_some(), least.is_some(), "seed {seed}, {percent} %");
            let (Some(found), Some(least)) = (found, least) else { continue };
            assert!(found >= least, "seed {seed}");
            count += 1;
            best += usize::from(found == least);
            sum += found / least;
        }
    }
    let mean = sum / f64::from(u32::try_from(count).unwrap());
    let said =
        format!("{best} of {count} take the least time, and all {mean:.3} times the least in the mean");
    assert!(count >= 30 && 10 * best >= 9 * count && mean < 1.005, "{said}");
    println!("{said}");
}

#[test]
fn what_cannot_be_dropped_is_no_reason_to_go_on() {
    // All bytes are needed at once.
    let (tasks, seconds) = network(1, 1);
    assert_eq!(begin(&tasks, &seconds).within(tasks[0].size), None);
    let (tasks, seconds) = network(3, 6);
    assert_eq!(begin(&tasks, &seconds).within(64), None);
}

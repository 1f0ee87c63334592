//! Measures the search for orders of execution with a low peak, and prints what it finds: how many random graphs are
//! ordered optimally, by the heuristics alone and by the search, and the gaps of randomly wired networks.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/common/seeded.rs"]
mod seeded;
#[path = "../tests/common/tasks.rs"]
mod tasks;

use criterion::{Criterion, criterion_group, criterion_main};
use ovolo::memory::{Order, Search, Task};
use seeded::Random;
use std::hint::black_box;
use std::time::Instant;

/// The most states for the networks of 64 nodes and more, so that most of the bounds are reached.
const STATES: usize = 4_000_000;

/// What was found for a program.
struct Line {
    /// The least peak of the candidates, without the searched order and with it.
    peaks: [usize; 2],
    bound: usize,
    seconds: f64,
}

fn line(tasks: &[Task], states: usize) -> Line {
    let heuristic = Search { states: 0 }.candidates(tasks);
    let begin = Instant::now();
    let search = Search { states }.candidates(tasks);
    let seconds = begin.elapsed().as_secs_f64();
    let bound = search.least.iter().map(|(_, bytes)| *bytes).sum();
    let peaks = [&heuristic, &search].map(|found| {
        let peaks = found.orders.iter().map(|order| tasks::peak(tasks, &order.tasks));
        peaks.min().unwrap()
    });
    Line { peaks, bound, seconds }
}

#[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
fn over(bytes: usize, bound: usize) -> f64 {
    bytes as f64 / bound as f64
}

fn graphs() {
    type Make = fn(&mut Random, usize) -> Vec<Task>;
    let families: [(&str, Make); 3] = [
        ("products", tasks::products),
        ("computed-leaves", |random, steps| tasks::computed_leaves(random, steps.div_ceil(2))),
        ("series-parallel", tasks::series_parallel),
    ];
    println!(
        "500 graphs of up to 40 steps      optimal: heuristics  search   worst heuristic   slowest search"
    );
    for (name, make) in families {
        let lines = (0..500).map(|seed| {
            let mut random = Random(seed);
            let steps = 2 + random.below(39);
            line(&make(&mut random, steps), Search::DEFAULT.states)
        });
        let lines: Vec<Line> = lines.collect();
        let optimal = |which: usize| lines.iter().filter(|line| line.peaks[which] == line.bound).count();
        let worst = lines.iter().map(|line| over(line.peaks[0], line.peaks[1])).fold(1.0, f64::max);
        let slowest = lines.iter().map(|line| line.seconds).fold(0.0, f64::max);
        println!("{name:33} {:19} {:7} {worst:17.2} {:13.0} ms", optimal(0), optimal(1), slowest * 1e3);
    }
}

fn networks() {
    println!("network                  heuristics    search     bound     gap    seconds");
    let show = |name: &str, tasks: &[Task], states: usize| {
        let Line { peaks, bound, seconds } = line(tasks, states);
        let gap = (over(peaks[1], bound) - 1.0) * 100.0;
        println!("{name:22} {:12} {:9} {bound:9} {gap:5.1} % {seconds:9.2}", peaks[0], peaks[1]);
    };
    for (size, bytes) in [("equal", 1), ("different", 100)] {
        for (nodes, seeds) in [(32, 10), (64, 10), (96, 2)] {
            for seed in 0..seeds {
                let size_of = |random: &mut Random| 64 * (1 + random.below(bytes));
                let tasks = tasks::randomly_wired(&mut Random(seed), nodes, &size_of);
                show(&format!("wired {nodes} {size} {seed}"), &tasks, STATES);
            }
        }
    }
    show("darts", &tasks::darts(), Search::DEFAULT.states);
}

fn order(criterion: &mut Criterion) {
    graphs();
    networks();
    let mut group = criterion.benchmark_group("order");
    group.sample_size(10);
    let size = |random: &mut Random| 64 * (1 + random.below(100));
    for (name, tasks) in [
        ("series-parallel-40", tasks::series_parallel(&mut Random(1), 40)),
        ("computed-leaves-20", tasks::computed_leaves(&mut Random(1), 20)),
        ("wired-32", tasks::randomly_wired(&mut Random(1), 32, &size)),
    ] {
        group.bench_function(name, |bencher| bencher.iter(|| Search::DEFAULT.candidates(black_box(&tasks))));
    }
    group.finish();
}

criterion_group!(benches, order);
criterion_main!(benches);

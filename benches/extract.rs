//! Measures the time of the exact extractor on e-graphs shaped like networks, and on randomly wired ones.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/framework/extract/synthetic.rs"]
mod synthetic;

use criterion::{Criterion, criterion_group, criterion_main};
use ovolo::extract::{Exact, Extractor};
use std::hint::black_box;
use synthetic::{dense, inception, residual, transformer, unet, wired};

fn extract(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extract-exact");
    group.sample_size(10);
    for (name, problem) in [
        ("residual-16", residual(1, 16, 4)),
        ("inception", inception(1, 9)),
        ("dense-58", dense(1, &[6, 12, 24, 16])),
        ("unet-20", unet(1, 20)),
        ("transformer-12", transformer(1, 12)),
        ("residual-1000", residual(1, 1000, 4)),
    ] {
        let result = Exact::DEFAULT.extract(&problem).unwrap();
        assert!(result.proven, "{name}: {:?}", result.report);
        group.bench_function(name, |bencher| bencher.iter(|| Exact::DEFAULT.extract(black_box(&problem))));
    }
    group.finish();
}

/// E-graphs that are not proven within the limits: the gap is printed, and must be at most 5 %.
fn bounded(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extract-wired");
    group.sample_size(10);
    for (seed, nodes) in [(1, 64), (2, 64), (3, 256), (4, 256)] {
        let problem = wired(seed, nodes);
        let result = Exact::DEFAULT.extract(&problem).unwrap();
        let gap = 1.0 - result.bound / result.cost;
        eprintln!("extract-wired/{nodes}-{seed}: gap {:.2} %", gap * 100.0);
        assert!(gap <= 0.05, "{nodes} nodes, seed {seed}: {:?}", result.report);
        let name = format!("{nodes}-{seed}");
        group.bench_function(name, |bencher| bencher.iter(|| Exact::DEFAULT.extract(black_box(&problem))));
    }
    group.finish();
}

criterion_group!(benches, extract, bounded);
criterion_main!(benches);

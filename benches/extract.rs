//! How long the exact extractor takes on e-graphs shaped like networks.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../tests/extract/synthetic.rs"]
mod synthetic;

use criterion::{Criterion, criterion_group, criterion_main};
use ovolo::extract::{Exact, Extractor};
use std::hint::black_box;
use synthetic::{dense, inception, residual, transformer, unet};

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

criterion_group!(benches, extract);
criterion_main!(benches);

//! Measures the time to pack the hard instances into their capacity, and to plan them as most engines do.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use ovolo::memory::{Exact, Planner, planners};
use ovolo_lab::buffer::Table;
use std::hint::black_box;
use std::path::Path;

const CAPACITY: usize = 1 << 20;

fn memory(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("tests").join("memory");
    let mut group = criterion.benchmark_group("memory");
    group.sample_size(10);
    for name in "ABCDEFGHIJK".chars() {
        let bytes = std::fs::read(folder.join(format!("{name}.1048576.csv"))).unwrap();
        let buffers = Table::read("instance", &bytes).unwrap().buffers;
        let exact = Exact { steps: 200_000, capacity: CAPACITY };
        assert!(exact.plan(&buffers).peak <= CAPACITY, "{name}");
        group.bench_function(format!("exact-{name}"), |bencher| {
            bencher.iter(|| exact.plan(black_box(&buffers)));
        });
        let planners = planners();
        let best = planners.get("best").unwrap();
        group.bench_function(format!("best-{name}"), |bencher| {
            bencher.iter(|| best.plan(black_box(&buffers)))
        });
    }
    group.finish();
}

criterion_group!(benches, memory);
criterion_main!(benches);

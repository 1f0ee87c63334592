//! Measures the time from an imported graph to its plan: the stripped models, and chains of residual blocks.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use std::fmt::Write;

#[path = "../tests/common/mod.rs"]
mod common;

/// A chain of `count` blocks: convolution, relu, convolution, residual, relu.
fn residual_blocks(count: usize) -> Graph {
    let mut source = String::from(
        "graph blocks {\n x0: f32[1,16,8,8] = input\n w: f32[16,16,3,3] = const ~1\n b: f32[16] = const ~2\n",
    );
    for block in 0..count {
        let _ = writeln!(source, " y{block} = conv(x{block}, w, b) {{pads: [1,1,1,1]}}");
        let _ = writeln!(source, " r{block} = relu(y{block})");
        let _ = writeln!(source, " z{block} = conv(r{block}, w, b) {{pads: [1,1,1,1]}}");
        let _ = writeln!(source, " s{block} = add(z{block}, x{block})");
        let _ = writeln!(source, " x{} = relu(s{block})", block + 1);
    }
    let _ = writeln!(source, " return x{count}\n}}");
    text::parse(common::ops(), &source).unwrap()
}

fn compile(criterion: &mut Criterion) {
    let options = common::options(2);
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    let folder = common::root().join("tests/models");
    let mut models: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.sort();
    for path in models {
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let graph = onnx::load(common::registry().onnx(), &path, &import).unwrap().graph;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        group.bench_function(name, |bencher| {
            bencher.iter(|| ovolo::compile::compile(graph.clone(), &options).unwrap());
        });
    }
    for count in [100, 300, 1000] {
        let graph = residual_blocks(count);
        group.bench_with_input(BenchmarkId::new("residual-blocks", count), &graph, |bencher, graph| {
            bencher.iter(|| ovolo::compile::compile(graph.clone(), &options).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, compile);
criterion_main!(benches);

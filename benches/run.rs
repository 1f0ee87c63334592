//! Measures runs of compiled models with seeded weights, on one and two threads.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::session::Session;
use ovolo::tensor::Tensor;

#[path = "../tests/common/mod.rs"]
mod common;

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("run");
    group.sample_size(20);
    for model in ["squeezenet1_1", "mobilenet_v2", "resnet50", "nasrnn"] {
        let path = common::root().join("tests/models").join(format!("{model}.onnx"));
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let graph = onnx::load(common::registry().onnx(), &path, &import).unwrap().graph;
        for threads in [1, 2] {
            let compilation = common::compile(graph.clone(), threads);
            let mut session =
                Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
            let inputs: Vec<Tensor> =
                session.plan().inputs.iter().map(|(_, ty)| Tensor::zeros(ty.clone())).collect();
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            group.bench_function(BenchmarkId::new(model, threads), |bencher| {
                bencher.iter(|| session.run(&inputs).map(<[Tensor]>::len).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);

//! Measures how long the shipped price list takes to price a kernel: all kernels among which the extraction of a network
//! chooses, with the corrections of `costs/fitted.ron` and without.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ovolo::backend::{Call, Contract};
use ovolo::cost::{CostModel, Machine, PriceModel};
use ovolo::egraph::KernelCall;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use std::hint::black_box;

#[path = "../tests/common/mod.rs"]
mod common;

const THREADS: usize = 2;

fn price(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("price");
    let options = common::options(THREADS);
    for model in ["resnet50", "bert_base"] {
        let path = common::root().join(format!("tests/models/{model}.onnx"));
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let graph = onnx::load(common::registry().onnx(), &path, &import).unwrap().graph;
        let saturated = options.saturate(&graph).unwrap();
        let fitted =
            PriceModel::shipped("fitted", Machine::NOMINAL).among(graph.constant_bytes()).corrected();
        let roofline = PriceModel::shipped("roofline", Machine::NOMINAL).among(graph.constant_bytes());
        let target = ovolo::stage::Target { threads: THREADS, ..options.context(&graph).target() };
        let contracts = |call: &Call<'_>| target.contract(call);
        let kernels = saturated.egraph().problem(&fitted, THREADS, &contracts).kernels();
        let contract = |kernel: &KernelCall| kernel.call(THREADS, |call| target.contract(call)).ok();
        let kernels: Vec<(KernelCall, Contract)> = kernels
            .into_iter()
            .filter_map(|kernel| contract(&kernel).map(|contract| (kernel, contract)))
            .collect();
        group.throughput(Throughput::Elements(kernels.len() as u64));
        for prices in [&fitted, &roofline] {
            group.bench_function(format!("{}/{model}", prices.name()), |bencher| {
                bencher.iter(|| {
                    let price = |(kernel, contract): &(KernelCall, Contract)| {
                        kernel.query(THREADS, contract, |query| prices.seconds(query))
                    };
                    black_box(&kernels).iter().filter_map(price).sum::<f64>()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, price);
criterion_main!(benches);

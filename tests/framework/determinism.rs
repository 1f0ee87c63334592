//! Tests that the same input gives the same plan, byte for byte.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::onnx::{self, ImportOptions, MissingWeights};

fn plan(model: &str) -> String {
    let path = common::root().join("tests/models").join(format!("{model}.onnx"));
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    common::compile(onnx::load(common::registry().onnx(), path, &options).unwrap().graph, 2).plan.to_string()
}

#[test]
fn plans_are_the_same_on_every_run_and_in_every_thread() {
    for model in ["squeezenet1_1", "mobilenet_v2", "resnet50"] {
        let first = plan(model);
        let others: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| plan(model))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(first.lines().count() > 20, "{model} has a plan");
        assert!(others.iter().all(|other| *other == first), "{model}: plans differ");
    }
}

//! Tests that a model's concatenations need no steps, in the layouts of plans for AVX-512.

use crate::common;
use ovolo::onnx::{self, ImportOptions, MissingWeights};

pub fn concatenations_of_squeezenet_need_no_steps() {
    // In the default layout, its images are not multiples of a cache line.
    let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let model = onnx::load(
        common::registry().onnx(),
        common::root().join("tests/models/squeezenet1_1.onnx"),
        &import,
    )
    .unwrap();
    let plan = common::compile(model.graph, 2).plan;
    assert!(plan.steps.iter().all(|step| !step.op.name.ends_with(".concat")), "{plan}");
}

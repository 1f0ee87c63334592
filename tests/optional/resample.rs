//! Tests resizing and transposed convolutions with oneDNN's kernels.

#[allow(dead_code)]
#[path = "../framework/resample.rs"]
mod native;

use crate::common::{self, reference, relative_error};
use native::{results, run};

pub fn results_are_those_of_onnx() {
    results(&["onednn"]);
}

pub fn modes_absent_from_onednn_run_natively() {
    let step = |attrs: &str| {
        let source = format!(
            "graph {{ x: f32[1,16,8,8] = input; y = resize(x) {{sizes: [16,16], {attrs}}}; return y }}"
        );
        let graph = ovolo::graph::text::parse(common::ops(), &source).unwrap();
        let x = common::random("x", ovolo::tensor::DType::F32, &[1, 16, 8, 8]);
        let (value, plan) = run(&graph, "onednn", &[&x]);
        assert!(relative_error(&value, &reference(&graph, &[x])[0]) < 1e-6, "{plan}");
        plan.steps.iter().find(|step| step.op.name.ends_with("resize")).unwrap().op.to_owned()
    };
    assert_eq!(step("mode: \"linear\""), "onednn.resize");
    // For twice the size, the coordinates by half pixels are nearest to the element that contains them.
    assert_eq!(step("mode: \"nearest\", coordinates: \"asymmetric\", rounding: \"floor\""), "onednn.resize");
    assert_eq!(step("mode: \"linear\", coordinates: \"align-corners\""), "native.resize");
    assert_eq!(step("mode: \"cubic\""), "native.resize");
}

pub fn transposed_convolutions_run_in_blocks() {
    let source = "graph { x: f32[2,24,9,7] = input; w: f32[24,20,4,4] = const ~1; b: f32[20] = const ~2;
        y = conv-transpose(x, w, b) {strides: [2,2], pads: [1,1,1,1]}; return y }";
    let graph = ovolo::graph::text::parse(common::ops(), source).unwrap();
    let x = common::random("x", ovolo::tensor::DType::F32, &[2, 24, 9, 7]);
    let wanted = reference(&graph, std::slice::from_ref(&x));
    for (name, op) in [("native", "native.conv-transpose-direct"), ("onednn", "onednn.conv-transpose")] {
        let (value, plan) = run(&graph, name, &[&x]);
        assert!(relative_error(&value, &wanted[0]) < 1e-5, "{plan}");
        assert!(plan.steps.iter().any(|step| step.op == *op), "{plan}");
    }
}

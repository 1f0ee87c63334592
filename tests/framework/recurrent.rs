//! Tests that recurrent layers which are written out in steps have the values of the layers.
#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::compile;
use ovolo::graph::text;
use ovolo::op::post;
use ovolo::op::recurrent::Activation;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};

/// Layers of three steps, two sequences and three units, with initial states and settings of all kinds.
const LAYERS: &[(&str, &str)] = &[
    (
        "lstm",
        r#"x: f32[3,2,2,12] = input
        r: f32[2,12,3] = const ~1
        h: f32[2,2,3] = input
        c: f32[2,2,3] = input
        y = lstm(x, r, h, c) {activations: "sigmoid,tanh,tanh,hard-sigmoid 0.3 0.4,elu 0.5,scaled-tanh 0.5 2"}"#,
    ),
    (
        "lstm",
        r#"x: f32[3,2,2,12] = input
        r: f32[2,12,3] = const ~1
        h: f32[2,2,3] = input
        c: f32[2,2,3] = input
        p: f32[2,9] = const ~2
        y = lstm(x, r, h, c, p) {activations: "sigmoid,tanh,tanh,sigmoid,tanh,tanh", clip: 0.5}"#,
    ),
    (
        "lstm",
        r#"x: f32[3,2,1,12] = input
        r: f32[1,12,3] = input
        h: f32[1,2,3] = input
        c: f32[1,2,3] = input
        p: f32[1,9] = input
        y = lstm(x, r, h, c, p) {activations: "sigmoid,tanh,tanh", reverse: 1, coupled: 1}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,2,9] = input
        r: f32[2,9,3] = const ~1
        h: f32[2,2,3] = input
        y = gru(x, r, h) {activations: "sigmoid,tanh,sigmoid,softsign", clip: 2.0}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,2,9] = input
        r: f32[2,9,3] = const ~1
        h: f32[2,2,3] = input
        e: f32[2,3] = const ~2
        y = gru(x, r, h, e) {activations: "sigmoid,tanh,sigmoid,leaky-relu 0.1", linear: 1}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,1,9] = input
        r: f32[1,9,3] = input
        h: f32[1,2,3] = input
        y = gru(x, r, h) {activations: "sigmoid,softplus", linear: 1, reverse: 1}"#,
    ),
    (
        "rnn",
        r#"x: f32[3,2,2,3] = input
        r: f32[2,3,3] = const ~1
        h: f32[2,2,3] = input
        y = rnn(x, r, h) {activations: "affine 0.5 0.25,relu", clip: 1.0}"#,
    ),
    (
        "rnn",
        r#"x: f32[8,2,1,3] = input
        r: f32[1,3,3] = const ~1
        h: f32[1,2,3] = input
        y = rnn(x, r, h) {activations: "tanh"}"#,
    ),
];

#[test]
fn layers_in_steps_have_the_values_of_whole_layers() {
    let mut options = common::options(1);
    for cell in ["lstm", "gru", "rnn"] {
        // Without its kernels for whole layers, the backend can only run steps.
        for rule in [format!("lower-{cell}-native"), format!("pack-{cell}-native")] {
            options.rules = options.rules.without(&rule);
            for phase in options.pipeline.passes_mut::<ovolo::pass::Rewrite>() {
                phase.rules.retain(|name| name.value != rule);
            }
        }
    }
    for (cell, layer) in LAYERS {
        let steps = if layer.contains("f32[8,") { 8 } else { 3 };
        let directions = if layer.contains("h: f32[2,") { 2 } else { 1 };
        // The states after all steps, the final states, and the whole.
        let graph = format!(
            "graph layer {{
                {layer}
                s = slice(y) {{starts: [0,0,0,0], sizes: [{steps},{directions},2,3], steps: [1,1,1,1]}}
                f = slice(y) {{starts: [{steps},0,0,0], sizes: [1,{directions},2,3], steps: [1,1,1,1]}}
                return y
                return s
                return f
            }}"
        );
        let graph = text::parse(common::ops(), &graph).unwrap();
        let compilation =
            compile::compile(graph.clone(), &options).unwrap_or_else(|error| panic!("{error}\n{layer}"));
        let whole = compilation.plan.steps.iter().any(|step| step.op.meaning() == *cell);
        assert!(!whole, "{layer}");
        let inputs = common::inputs(&graph);
        let mut session =
            Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap().to_vec();
        for (output, expected) in outputs.iter().zip(common::reference(&graph, &inputs)) {
            let error = common::relative_error(output, &expected);
            assert!(error < 1e-5, "relative L2 error {error:e}\n{layer}");
        }
    }
}

#[test]
fn activations_are_chains_of_the_same_values() {
    let names = [
        "sigmoid",
        "tanh",
        "relu",
        "affine 0.5 -0.25",
        "leaky-relu 0.2",
        "thresholded-relu 0.75",
        "scaled-tanh 0.5 1.5",
        "hard-sigmoid 0.3 0.4",
        "elu 0.5",
        "softsign",
        "softplus",
    ];
    let points: Vec<f64> = (-24..=24).map(|at| f64::from(at) / 8.0).collect();
    for one in Activation::list(&names.join(",")).unwrap() {
        for clip in [0.0, 1.0] {
            let x = Tensor::from_f64(DType::F64, [points.len()], &points);
            let values = post::apply(&one.steps(clip), &[], x).to_f64();
            for (x, value) in points.iter().zip(values) {
                let expected = one.apply(if clip > 0.0 { x.clamp(-clip, clip) } else { *x });
                assert!((value - expected).abs() < 1e-12, "{one} of {x} is {value}, not {expected}");
            }
        }
    }
}

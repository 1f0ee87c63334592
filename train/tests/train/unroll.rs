//! Recurrent layers that are written out have the values of the layers, and gradients that agree with differences.

use super::step::{agrees, evaluate, inputs, network, recipe, step, wide};
use ovolo::Registry;
use ovolo::graph::text;
use std::collections::BTreeMap;

/// Layers of three steps and two sequences with settings of all kinds: the cell, and its graph.
const LAYERS: &[(&str, &str)] = &[
    (
        "lstm",
        r#"x: f32[3,2,2,12] = input
        r: f32[2,12,3] = const ~1; h: f32[2,2,3] = const ~2; c: f32[2,2,3] = const ~3
        y = lstm(x, r, h, c) {activations: "sigmoid,tanh,tanh,hard-sigmoid 0.3 0.4,elu 0.5,scaled-tanh 0.5 2"}"#,
    ),
    (
        "lstm",
        r#"x: f32[3,2,1,12] = input
        r: f32[1,12,3] = const ~1; h: f32[1,2,3] = const ~2; c: f32[1,2,3] = const ~3; p: f32[1,9] = const ~4
        y = lstm(x, r, h, c, p) {activations: "sigmoid,tanh,tanh", clip: 0.5}"#,
    ),
    (
        "lstm",
        r#"x: f32[3,2,1,12] = input
        r: f32[1,12,3] = const ~1; h: f32[1,2,3] = const ~2; c: f32[1,2,3] = const ~3; p: f32[1,9] = const ~4
        y = lstm(x, r, h, c, p) {activations: "sigmoid,tanh,tanh", reverse: 1, coupled: 1}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,2,9] = input
        r: f32[2,9,3] = const ~1; h: f32[2,2,3] = const ~2
        y = gru(x, r, h) {activations: "sigmoid,tanh,sigmoid,softsign", clip: 2.0}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,2,9] = input
        r: f32[2,9,3] = const ~1; h: f32[2,2,3] = const ~2; e: f32[2,3] = const ~3
        y = gru(x, r, h, e) {activations: "sigmoid,tanh,sigmoid,leaky-relu 0.1", linear: 1}"#,
    ),
    (
        "gru",
        r#"x: f32[3,2,1,9] = input
        r: f32[1,9,3] = const ~1; h: f32[1,2,3] = const ~2
        y = gru(x, r, h) {activations: "sigmoid,softplus", linear: 1, reverse: 1}"#,
    ),
    (
        "rnn",
        r#"x: f32[3,2,2,3] = input
        r: f32[2,3,3] = const ~1; h: f32[2,2,3] = const ~2
        y = rnn(x, r, h) {activations: "affine 0.5 0.25,relu", clip: 1.0}"#,
    ),
];

#[test]
fn recurrent_layers_are_trained_step_by_step() {
    for (at, (cell, layer)) in LAYERS.iter().enumerate() {
        let text = format!("graph layer {{\n{layer}\nreturn y\n}}");
        let network = network(&format!("{cell}-{at}"), &text);
        let recipe = recipe("mse", "sgd");
        let step = step(&network, &recipe).unwrap_or_else(|why| panic!("{layer}\n{why}"));
        assert!(step.graph.nodes().all(|(_, node)| node.op != *cell), "{layer}");
        let given: BTreeMap<_, _> =
            inputs(&network, &step).into_iter().map(|(name, value)| (name, wide(&value))).collect();
        let whole = evaluate(&text::parse(Registry::new().ops(), &text).unwrap(), &given);
        let (name, _) = step.graph.outputs().nth(1).unwrap();
        let found = evaluate(&step.graph, &given)[&**name].to_f64();
        assert!(whole["y"].to_f64().iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-9), "{layer}");
        agrees(&network, &recipe);
    }
}

#[test]
fn a_layer_with_lengths_has_no_derivative() {
    let text = r#"graph lengths {
        x: f32[3,2,1,3] = input
        r: f32[1,3,3] = const ~1; h: f32[1,2,3] = const ~2
        n: i32[2] = input
        y = rnn(x, r, h, n) {activations: "tanh"}
        return y
    }"#;
    let why = step(&network("lengths", text), &recipe("mse", "sgd")).err().unwrap().to_string();
    assert!(why.contains("`y`, an op `rnn`") && why.contains("the table has no rule for it"), "{why}");
}

//! Tests that every step of a plan tells which rules led to it, and from which imported nodes it comes.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::compile::runner_up::runner_ups;
use ovolo::graph::text;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::plan::Plan;

fn planned(source: &str) -> Plan {
    let graph = text::parse(common::ops(), source).unwrap_or_else(|errors| panic!("{errors}"));
    common::compile(graph, 1).plan
}

/// The imported nodes of the step that computes a value, and the files of the rules that led to it.
fn source(plan: &Plan, value: &str) -> (Vec<String>, Vec<String>) {
    let step = plan.steps.iter().find(|step| &*step.name == value).unwrap_or_else(|| panic!("{plan}"));
    let imported = step.source.imported.iter().map(ToString::to_string).collect();
    let file = |rule: &String| rule.split(['(', ':']).nth(1).unwrap().to_owned();
    (imported, step.source.rules.iter().map(file).collect())
}

#[test]
fn a_fused_step_comes_from_exactly_the_nodes_that_it_computes() {
    let plan = planned(
        "graph {
        x: f32[1,16,8,8] = input
        w: f32[16,16,3,3] = const ~1
        b: f32[16] = const ~2
        first = conv(x, w, b) {pads: [1,1,1,1]}
        second = conv(x, w, b) {pads: [1,1,1,1], groups: 1, dilations: [1,1], strides: [1,1]}
        third = conv(first, w, b) {pads: [1,1,1,1]}
        sum = add(third, first)
        y = relu(sum)
        s = softmax(x) {axis: 3}
        z = add(y, s)
        return z
        }",
    );
    let (imported, files) = source(&plan, "s");
    assert_eq!(imported, ["s (softmax)"]);
    assert_eq!(files, ["rules/native.ron"]);
    let blocked = |value: &str| {
        let form = |name: &str| name.split('@').next() == Some(value);
        let step = plan.steps.iter().find(|step| form(&step.name) && step.op.name.contains("conv"));
        let step = step.unwrap_or_else(|| panic!("no convolution for {value} in\n{plan}"));
        source(&plan, &step.name)
    };
    // Equal values are computed once, and the step lists all their names.
    assert_eq!(blocked("first").0, ["first (conv)", "second (conv)"]);
    let (imported, files) = blocked("z");
    assert_eq!(imported, ["third (conv)", "sum (add)", "y (relu)", "z (add)"]);
    assert!(files.contains(&"rules/fuse.ron".to_owned()), "{files:?}");
}

#[test]
fn other_rules_that_led_to_a_step_are_listed() {
    let plan = planned(
        "graph {
        x: f32[1,3,8,8] = input
        w: f32[16,3,3,3] = const ~1
        b: f32[16] = const ~2
        v: f32[16] = const splat 2.0
        c = conv(x, w, b)
        n = batch-norm(c, b, b, b, v) {epsilon: 0.001}
        y = relu(n)
        return y
        }",
    );
    let step = plan.steps.iter().find(|step| step.op.name.contains("conv")).unwrap();
    let named = |rules: &[String], name: &str| rules.iter().any(|rule| rule.starts_with(name));
    assert!(named(&step.source.rules, "map-relu (rules/fuse.ron:"), "{step:?}");
    assert!(named(&step.source.others, "split-batch-norm (rules/fuse.ron:"), "{step:?}");
    let imported: Vec<String> = step.source.imported.iter().map(ToString::to_string).collect();
    assert_eq!(imported, ["c (conv)", "n (batch-norm)", "y (relu)"]);
}

#[test]
fn every_step_of_a_model_leads_back_to_imported_nodes() {
    for name in ["squeezenet1_1", "mobilenet_v2", "bert_base"] {
        let path = common::root().join(format!("tests/models/{name}.onnx"));
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let graph = onnx::load(common::registry().onnx(), path, &import).unwrap().graph;
        let plan = common::compile(graph.clone(), 2).plan;
        for step in &plan.steps {
            assert!(
                !step.source.rules.is_empty() && !step.source.imported.is_empty(),
                "{name}: {}",
                step.name
            );
            for one in &step.source.imported {
                let node = graph.find(&one.name).unwrap_or_else(|| panic!("{name}: {one}"));
                assert_eq!(graph[node].op.name, one.op);
            }
        }
    }
}

#[test]
fn a_runner_up_says_in_what_it_differs() {
    let graph = text::parse(
        common::ops(),
        "graph { x: f32[1,64,28,28] = input; w: f32[64,64,3,3] = const ~1; b: f32[64] = const ~2
        y = conv(x, w, b) {pads: [1,1,1,1]}; return y }",
    );
    let found = runner_ups(&graph.unwrap(), &common::options(1), &mut |_, _| ()).unwrap();
    let conv = found.iter().find(|one| one.chosen.contains("conv")).unwrap();
    assert!(conv.instead.is_some() && !conv.differs.is_empty(), "{conv:?}");
    for one in &found {
        assert!(one.instead.is_none() || !one.differs.is_empty(), "{one:?}");
    }
}

/// The source of each step, compiled with these rules in addition to the shipped ones: imported nodes and
/// rules.
fn sources(source: &str) -> Vec<(String, Vec<String>, Vec<String>)> {
    let name = |rule: &String| rule.split(' ').next().unwrap().to_owned();
    let plan = planned(source);
    let of = |step: &ovolo::plan::Step| {
        let rules = step.source.rules.iter().chain(&step.source.others).map(name).collect();
        (step.name.to_string(), step.source.imported.iter().map(ToString::to_string).collect(), rules)
    };
    plan.steps.iter().map(of).collect()
}

#[test]
fn a_rule_that_only_unites_is_listed_at_the_readers_of_what_it_removed() {
    let found = sources(
        "graph { x: f32[2,3] = input; t = transpose(x) {perm: [0,1]}; y = exp(t); z = tanh(x); return y; return z }",
    );
    let [y, z] = &["y", "z"].map(|name| found.iter().find(|step| step.0 == name).unwrap());
    assert_eq!(y.1, ["t (transpose)", "y (exp)"]);
    assert!(y.2.contains(&"drop-identity-transpose".to_owned()), "{y:?}");
    // A step that did not read the removed value does not list the rule.
    assert_eq!(z.1, ["z (tanh)"]);
    assert!(!z.2.contains(&"drop-identity-transpose".to_owned()), "{z:?}");
}

#[test]
fn chains_of_removals_and_removed_outputs_are_listed() {
    // Two transposes that undo each other.
    let found = sources(
        "graph { x: f32[2,3] = input; a = transpose(x) {perm: [1,0]}; b = transpose(a) {perm: [1,0]}; y = exp(b); return y }",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, ["a (transpose)", "b (transpose)", "y (exp)"]);
    for rule in ["compose-transposes", "drop-identity-transpose"] {
        assert!(found[0].2.contains(&rule.to_owned()), "{rule}: {found:?}");
    }
    // A removed output is listed at the step that computes its value.
    let found = sources("graph { x: f32[2,3] = input; y = exp(x); r = reshape(y) {shape: [2,3]}; return r }");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, ["y (exp)", "r (reshape)"]);
    assert!(found[0].2.contains(&"drop-identity-reshape".to_owned()), "{found:?}");
    // The reshape lies between blocked convolutions, so its value in the default layout is never computed.
    let found = sources(
        "graph { x: f32[1,16,8,8] = input; w: f32[16,16,3,3] = const ~1; b: f32[16] = const ~2
        c = conv(x, w, b) {pads: [1,1,1,1]}; t = reshape(c) {shape: [1,16,8,8]}; y = conv(t, w, b) {pads: [1,1,1,1]}; return y }",
    );
    let told = |step: &&(String, Vec<String>, Vec<String>)| step.1.contains(&"t (reshape)".to_owned());
    let told: Vec<_> = found.iter().filter(told).collect();
    assert!(!told.is_empty(), "{found:?}");
    assert!(told.iter().all(|step| step.2.contains(&"drop-identity-reshape".to_owned())), "{told:?}");
}

#[test]
fn a_view_is_listed_at_its_reader_or_at_its_step() {
    let found = sources(
        "graph { x: f32[2,6] = input; a = exp(x); flat = reshape(a) {shape: [3,4]}; y = softmax(flat) {axis: 1}; return y }",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].1, ["a (exp)"]);
    assert_eq!(found[1].1, ["flat (reshape)", "y (softmax)"]);
    // Without a reader, the view is listed at the step whose result it is.
    let found =
        sources("graph { x: f32[2,6] = input; a = exp(x); flat = reshape(a) {shape: [3,4]}; return flat }");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, ["a (exp)", "flat (reshape)"]);
}

//! Tests how outputs reach the caller: written where they lie, or copied after the last step.
#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::cost::Machine;
use ovolo::graph::{Graph, text};
use ovolo::session::Session;
use ovolo::tensor::{DType, Shape, Tensor};

/// Runs a graph twice on different inputs, keeps the first results, and compares both with the reference evaluation.
/// Returns the positions of the outputs that steps write where the caller reads them.
fn direct(source: &str, threads: usize) -> Vec<usize> {
    let graph = text::parse(common::ops(), source).unwrap();
    let compilation = common::compile(graph.clone(), threads);
    let backends = common::registry().backends();
    let mut session = Session::new(&compilation.program, compilation.plan, backends).unwrap();
    let runs: Vec<Vec<Tensor>> = (0..3).map(|run| inputs(&graph, run)).collect();
    // The session shares its outputs with `results`, and must leave them alone.
    let results: Vec<Vec<Tensor>> =
        runs.iter().map(|inputs| session.run(&inputs.iter().collect::<Vec<_>>()).unwrap().to_vec()).collect();
    for (inputs, got) in runs.iter().zip(&results) {
        let wanted = common::reference(&graph, inputs);
        for (got, wanted) in got.iter().zip(&wanted) {
            assert!(common::relative_error(got, wanted) < 1e-6, "{source}");
        }
        assert_eq!(got.len(), wanted.len());
    }
    // Outputs that nobody shares are written again.
    let again = session.run_owned(&runs[0].iter().collect::<Vec<_>>()).unwrap();
    assert!(again.iter().zip(&results[0]).all(|(again, first)| again.to_f64() == first.to_f64()));
    session.direct_outputs()
}

fn inputs(graph: &Graph, run: usize) -> Vec<Tensor> {
    let shapes = graph.inputs().map(|(_, node)| &node.ty.shape);
    let one =
        |(at, shape): (usize, &Shape)| common::random(&format!("input {at} of run {run}"), DType::F32, shape);
    shapes.enumerate().map(one).collect()
}

#[test]
fn the_result_of_the_last_step_is_written_where_the_caller_reads_it() {
    assert_eq!(direct("graph { x: f32[37,5] = input; y = relu(x); return y }", 2), [0]);
}

#[test]
fn steps_in_place_and_views_share_the_memory_of_the_output() {
    let chain = "graph {
        x: f32[64,64] = input
        w: f32[64,64] = const ~1
        y = matmul(x, w)
        s = softmax(y) {axis: 1}
        t = reshape(s) {shape: [16,256]}
        return t
    }";
    assert_eq!(direct(chain, 2), [0]);
}

#[test]
fn a_value_that_later_steps_read_is_written_directly_too() {
    let both = "graph {
        x: f32[64,64] = input
        w: f32[64,64] = const ~1
        y = matmul(x, w)
        z = matmul(y, w)
        return y
        return z
    }";
    assert_eq!(direct(both, 2), [0, 1]);
}

#[test]
fn inputs_constants_and_values_that_are_returned_twice_are_copied() {
    let copied = "graph {
        x: f32[8,8] = input
        c: f32[8,8] = const ~1
        y = relu(x)
        return x
        return c
        return y
        return again = y
    }";
    assert_eq!(direct(copied, 2), [0; 0]);
}

#[test]
fn parts_of_a_larger_buffer_are_copied() {
    let parts = "graph {
        x: f32[4,64] = input
        y = relu(x)
        a = slice(y) {starts: [1,0], sizes: [2,64], steps: [1,1]}
        return a
    }";
    direct(parts, 2);
    let joined = "graph {
        x: f32[1,16,8,8] = input
        a = relu(x)
        b = sigmoid(x)
        c = concat(a, b) {axis: 1}
        return c
        return a
    }";
    assert!(!direct(joined, 2).contains(&1));
}

/// The estimate of a plan contains what a run does after the last step.
#[test]
fn copies_of_outputs_are_in_the_estimate() {
    let plan = |outputs: &str| {
        let source = format!("graph {{ x: f32[700,1000] = input; y = relu(x); {outputs} }}");
        let plan = common::compile(text::parse(common::ops(), &source).unwrap(), 1).plan;
        let session = Session::new(&Graph::default(), plan.clone(), common::registry().backends()).unwrap();
        let copied: Vec<usize> =
            (0..plan.outputs.len()).filter(|at| !session.direct_outputs().contains(at)).collect();
        assert_eq!(plan.copied_outputs(), copied, "{outputs}");
        let steps: f64 = plan.steps.iter().map(|step| step.seconds).sum();
        assert!((plan.seconds() - steps - plan.copying).abs() < 1e-15);
        plan
    };
    let direct = plan("return y");
    assert!(direct.copied_outputs().is_empty() && direct.copying == 0.0);
    let (once, twice) = (plan("return y; return x"), plan("return y; return z = y"));
    assert_eq!((once.copied_outputs(), twice.copied_outputs()), (vec![1], vec![0, 1]));
    // By the nominal machine, whose price of a copy is its start and twice its bytes.
    let machine = Machine::NOMINAL;
    let copy = machine.start + 2.0 * (4.0 * 700.0 * 1000.0) / machine.cache;
    assert!((once.copying / copy - 1.0).abs() < 1e-9, "{} and {copy}", once.copying);
    assert!((twice.copying / once.copying - 2.0).abs() < 1e-9);
    // A plan is stored with it.
    let text = serde_json::to_value(&once).unwrap();
    assert_eq!(text["copying"], once.copying);
}

#[test]
fn large_copies_are_divided_between_threads() {
    let large = "graph { x: f32[700,1000] = input; y = relu(x); return y; return x; return z = y }";
    assert_eq!(direct(large, 3), [0; 0]);
}

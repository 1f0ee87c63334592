//! Tests plans for more threads than this machine may have processors, and plans for several sizes of a batch.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions};
use ovolo::pass::pricing::pricings;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};

/// A block of a transformer: attention of four heads and two layers, each with what they are added to.
const BLOCK: &str = "graph block {
    x: f32[2,48,64] = input
    g: f32[64] = const ~1
    b: f32[64] = const ~2
    wq: f32[64,64] = const ~3
    wk: f32[64,64] = const ~4
    wv: f32[64,64] = const ~5
    wo: f32[64,64] = const ~6
    up: f32[64,256] = const ~7
    down: f32[256,64] = const ~8
    n = layer-norm(x, g, b) {axis: 2}
    q = matmul(n, wq)
    k = matmul(n, wk)
    v = matmul(n, wv)
    qh = reshape(q) {shape: [2,48,4,16]}
    kh = reshape(k) {shape: [2,48,4,16]}
    vh = reshape(v) {shape: [2,48,4,16]}
    qt = transpose(qh) {perm: [0,2,1,3]}
    kt = transpose(kh) {perm: [0,2,3,1]}
    vt = transpose(vh) {perm: [0,2,1,3]}
    s = matmul(qt, kt)
    p = softmax(s) {axis: 3}
    o = matmul(p, vt)
    ot = transpose(o) {perm: [0,2,1,3]}
    oj = reshape(ot) {shape: [2,48,64]}
    a = matmul(oj, wo)
    r = add(x, a)
    m = layer-norm(r, g, b) {axis: 2}
    h = matmul(m, up)
    e = gelu(h)
    d = matmul(e, down)
    y = add(r, d)
    return y
}";

/// The trained convolutional network for handwritten digits, for a number of images.
fn digits(images: usize) -> Graph {
    let path = common::root().join("examples/digits/digits.onnx");
    let import = ImportOptions::default().with_dim("N", images);
    onnx::load(common::registry().onnx(), path, &import).unwrap().graph
}

fn graphs() -> [(&'static str, Graph); 2] {
    [("digits", digits(3)), ("block", text::parse(common::ops(), BLOCK).unwrap())]
}

fn inputs(graph: &Graph) -> Vec<Tensor> {
    graph.inputs().map(|(_, node)| common::random(&node.name, DType::F32, &node.ty.shape)).collect()
}

fn run(graph: &Graph, options: &Options, inputs: &[Tensor]) -> Vec<Tensor> {
    let compilation = compile::compile(graph.clone(), options).unwrap();
    assert_eq!(compilation.plan.threads, options.threads);
    let backends = common::registry().backends();
    let mut session = Session::new(&compilation.program, compilation.plan, backends).unwrap();
    session.run(&inputs.iter().collect::<Vec<_>>()).unwrap().to_vec()
}

/// The numbers of threads; the largest ones are more than the processors of most machines.
const THREADS: [usize; 4] = [1, 4, 8, 16];

#[test]
fn plans_for_many_threads_give_the_values_of_one_thread() {
    for (name, graph) in graphs() {
        let inputs = inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        let alone = run(&graph, &common::options(1), &inputs);
        for threads in THREADS {
            let outputs = run(&graph, &common::options(threads), &inputs);
            for ((output, wanted), alone) in outputs.iter().zip(&reference).zip(&alone) {
                let error = common::relative_error(output, wanted);
                assert!(error < 1e-5, "{name} on {threads} threads: {error}");
                // Threads share the elements of these results, and each element is computed in the same order.
                assert_eq!(output.bytes(), alone.bytes(), "{name} on {threads} threads");
            }
        }
    }
}

#[test]
fn estimates_fall_with_the_number_of_threads() {
    for (name, graph) in graphs() {
        for cost in ["roofline", "fitted"] {
            let estimate = |threads: usize| {
                let mut options = common::options(threads);
                options.pipeline.extract_mut().unwrap().price_by(cost, pricings()).unwrap();
                // A machine where each thread has a core of its own, and all share the way to memory.
                let nominal = Machine::NOMINAL;
                let (flops, cache) = (nominal.flops * threads as f64, nominal.cache * threads as f64);
                options.machine = Machine { flops, cache, ..nominal };
                compile::compile(graph.clone(), &options).unwrap().plan.seconds()
            };
            let estimates = THREADS.map(estimate);
            assert!(estimates.is_sorted_by(|fewer, more| more <= fewer), "{name} by {cost}: {estimates:?}");
            assert!(estimates[0] > 0.0);
        }
    }
}

#[test]
fn batches_of_several_sizes_are_right() {
    let options = common::options(2);
    let whole = inputs(&digits(16)).pop().unwrap().to_f64();
    let mut rows = Vec::new();
    for images in [1, 4, 16] {
        let graph = digits(images);
        let shape = graph.inputs().next().unwrap().1.ty.shape.clone();
        let part = &whole[..shape.count()];
        let inputs = [Tensor::from_f64(DType::F32, shape, part)];
        let outputs = run(&graph, &options, &inputs);
        for (output, wanted) in outputs.iter().zip(&common::reference(&graph, &inputs)) {
            let error = common::relative_error(output, wanted);
            assert!(error < 1e-5, "{images} images: {error}");
        }
        rows.push(outputs[0].to_f64());
    }
    // What a batch gives for its first image does not depend on the others beyond rounding.
    let classes = rows[0].len();
    for other in &rows[1..] {
        for (one, other) in rows[0].iter().zip(&other[..classes]) {
            assert!((one - other).abs() <= 1e-4 * one.abs().max(1.0), "{one} and {other}");
        }
    }
}

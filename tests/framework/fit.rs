//! Tests plans under a memory limit, the curve of time against memory, and operands that are computed in
//! place within a concatenation.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::compile::{self, Options};
use ovolo::error::Error;
use ovolo::graph::{Graph, text};
use ovolo::memory::Limit;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass::PassReport;
use ovolo::pass::Rewrite;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::pricings;
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::stage::{Curve, Point};
use ovolo::tensor::{DType, Device};

fn model(name: &str) -> Graph {
    let path = common::root().join("tests/models").join(format!("{name}.onnx"));
    let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    onnx::load(common::registry().onnx(), &path, &import).unwrap().graph
}

fn limited(limit: Option<usize>) -> Options {
    let mut options = common::options(2);
    options.pipeline.plan_mut().unwrap().limits = limit.into();
    options
}

/// The same without the search for an order, which makes copies unnecessary here.
fn heuristic(mut options: Options) -> Options {
    options.pipeline.plan_mut().unwrap().order = "reuse".into();
    options
}

fn weighed(memory: f64) -> Options {
    let mut options = common::options(2);
    options.pipeline.extract_mut().unwrap().memory = memory;
    options
}

fn curve(graph: &Graph, options: &Options) -> Curve {
    curve_of(graph, options).unwrap()
}

fn curve_of(graph: &Graph, options: &Options) -> Result<Curve, Error> {
    let saturated = options.saturate(graph)?;
    options.price(&saturated)?.curve(&options.choice(graph)?, Device::Host, &mut |_, _| {})
}

fn plans(graph: &Graph, options: &Options) -> Vec<Point> {
    let curve = curve(graph, options);
    assert!(curve.complete);
    curve.points
}

/// Bytes of the host's arena and of the constants that it keeps.
fn memory(plan: &Plan) -> usize {
    plan.memory_of(Device::Host)
}

fn plan(graph: &Graph, options: &Options) -> Plan {
    compile::compile(graph.clone(), options).unwrap().plan
}

/// Winograd's algorithm is fastest for the middle convolution, and needs scratch.
const SCRATCH: &str = "graph scratch {
 x: f32[1,64,28,28] = input
 w: f32[64,64,3,3] = const ~1
 v: f32[64,64,3,3] = const ~2
 b: f32[64] = const ~3
 y = conv(x, w, b) {pads: [1,1,1,1]}
 r = relu(y)
 z = conv(r, v, b) {pads: [1,1,1,1]}
 s = add(z, x)
 return s
}";

#[test]
fn the_curve_falls_and_every_point_of_it_is_reachable() {
    for (graph, least_points) in [(text::parse(common::ops(), SCRATCH).unwrap(), 2), (model("vgg16"), 2)] {
        let points = plans(&graph, &common::options(2));
        assert!(points.len() >= least_points, "{points:?}");
        for pair in points.windows(2) {
            assert!(pair[0].seconds < pair[1].seconds && pair[0].bytes() > pair[1].bytes(), "{pair:?}");
        }
        for point in &points {
            let (seconds, bytes) = (point.seconds, point.bytes());
            let plan = plan(&graph, &limited(Some(bytes)));
            assert!(
                memory(&plan) <= bytes && plan.seconds() <= seconds * (1.0 + 1e-9),
                "{point:?}: {} bytes, {} s",
                memory(&plan),
                plan.seconds()
            );
        }
        // A weight so large that only memory counts, and a weight of zero.
        assert_eq!(memory(&plan(&graph, &weighed(1e9))), points.last().unwrap().bytes());
        assert_eq!(memory(&plan(&graph, &weighed(0.0))), points[0].bytes());
    }
}

#[test]
fn the_curve_begins_within_the_limit() {
    let graph = text::parse(common::ops(), SCRATCH).unwrap();
    let all = plans(&graph, &common::options(2));
    assert!(all.len() > 1, "{all:?}");
    for (at, point) in all.iter().enumerate() {
        let within = plans(&graph, &limited(Some(point.bytes())));
        // A limit that is tight rules more out than one that is not: it may prove what the whole curve does not.
        let figures = |point: &Point| (point.seconds, point.arena, point.constants);
        assert!(within.iter().map(figures).eq(all[at..].iter().map(figures)), "{within:?} {all:?}");
        assert!(within.iter().zip(&all[at..]).all(|(one, other)| one.proven >= other.proven));
    }
    let least = all.last().unwrap().bytes();
    let error = curve_of(&graph, &limited(Some(least - 1))).unwrap_err();
    assert!(error.to_string().starts_with(&format!("the smallest plan that was found needs {least} bytes")));
}

/// `nasrnn` with the equalities of superoptimisers: no extraction from its e-graph is proven within its
/// limits.
#[test]
fn the_work_of_a_search_has_a_limit_where_the_e_graph_is_hard() {
    let graph = model("nasrnn");
    let mut options = common::options(2);
    let (name, text) = common::registry().pipeline("superoptimise").unwrap();
    options.pipeline = Pipeline::read(&common::registry().scope(), name, text).unwrap();
    options.pipeline.extract_mut().unwrap().price_by("flops", pricings()).unwrap();
    options.pipeline.plan_mut().unwrap().limits = Limit::host(1000);
    let error = compile::compile(graph, &options).unwrap_err().to_string();
    assert!(error.starts_with("the smallest plan that was found needs "), "{error}");
    assert!(error.contains("\nthe search ended at its limit of work (12000000 steps)"), "{error}");
}

#[test]
fn plans_within_a_limit_compute_the_right_values() {
    let graph = text::parse(common::ops(), SCRATCH).unwrap();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    for point in plans(&graph, &common::options(2)) {
        let compilation = compile::compile(graph.clone(), &limited(Some(point.bytes()))).unwrap();
        let mut session =
            Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        assert!(common::relative_error(&outputs[0], &reference[0]) < 1e-4);
    }
}

/// Values that are needed in the opposite order of their making, as in a backward pass.
const THERE_AND_BACK: &str = "graph there-and-back {
 x: f32[64,512] = input
 a = exp(x)
 b = reduce-sum(a) {axes: [1], keepdims: 1}
 c = div(a, b)
 d = softmax(c) {axis: 0}
 e = cum-sum(d) {axis: 1}
 f = softmax(e) {axis: 0}
 g = cum-sum(f) {axis: 0}
 h1 = softmax(g) {axis: 1}
 h = mul(h1, f)
 i = cum-sum(h) {axis: 1}
 j1 = softmax(i) {axis: 1}
 j = mul(j1, d)
 k = cum-sum(j) {axis: 1}
 l1 = softmax(k) {axis: 1}
 l = mul(l1, a)
 return l
}";

#[test]
fn a_value_is_computed_again_within_a_limit_and_is_the_same_to_the_bit() {
    let graph = text::parse(common::ops(), THERE_AND_BACK).unwrap();
    let free = compile::compile(graph.clone(), &limited(None)).unwrap();
    let points = plans(&graph, &common::options(2));
    let least = points.last().unwrap().bytes();
    assert!(least < memory(&free.plan), "{points:?}");
    let limited = compile::compile(graph, &limited(Some(least))).unwrap();
    let (count, seconds) = limited.plan.again();
    assert_eq!(free.plan.again(), (0, 0.0));
    assert!(count > 0 && memory(&limited.plan) <= least, "{}", limited.plan);
    assert!((limited.plan.seconds() - free.plan.seconds() - seconds).abs() < 1e-12);
    // What is computed again has the kernel and the origin of the first time.
    for step in limited.plan.steps.iter().filter(|step| step.source.again) {
        let name = step.name.split(".again").next().unwrap();
        let first = limited.plan.steps.iter().find(|first| *first.name == *name).unwrap();
        assert_eq!((first.op, &first.attrs, &first.source.rules), (step.op, &step.attrs, &step.source.rules));
        assert!(!first.source.again && *step.name != *first.name);
    }
    let x = common::random("x", DType::F32, &[64, 512]);
    let run = |compiled: compile::Compilation| {
        let mut session =
            Session::new(&compiled.program, compiled.plan, common::registry().backends()).unwrap();
        session.run(&[&x]).unwrap()[0].bytes().to_vec()
    };
    assert!(run(free) == run(limited));
}

#[test]
fn operands_are_computed_within_the_concatenation() {
    let graph = text::parse(
        common::ops(),
        "graph branches {
 x: f32[1,16,8,8] = input
 w: f32[16,16,1,1] = const ~1
 b: f32[16] = const ~2
 k: f32[1,16,8,8] = const ~3
 y = conv(x, w, b)
 r = relu(y)
 m = max-pool(r) {kernel: [3,3], pads: [1,1,1,1]}
 c = concat(r, m, y, r, x, k) {axis: 1}
 return c
}",
    )
    .unwrap();
    let compilation = compile::compile(graph.clone(), &common::options(2)).unwrap();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let mut session =
        Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    assert!(common::relative_error(&outputs[0], &reference[0]) < 1e-4);
}

/// A residual over a concatenation: one operand of the last convolution is a part of another.
const PARTS: &str = "graph g {
  x: f32[1,64,112,112] = input
  w: f32[64,128,3,3] = const ~1
  u: f32[64,64,1,1] = const ~4
  bb: f32[64] = const ~2
  a = conv(x, u, bb) {pads: [0,0,0,0], strides: [1,1]}
  b = max-pool(a) {kernel: [3,3], pads: [1,1,1,1], strides: [1,1]}
  c = concat(a, b) {axis: 1}
  k = conv(c, w, bb) {pads: [1,1,1,1], strides: [1,1]}
  s = add(k, a)
  y = relu(s)
  q = max-pool(y) {kernel: [4,4], pads: [0,0,0,0], strides: [4,4]}
  return q = q
}";

#[test]
fn a_proven_plan_within_a_limit_is_not_beaten_with_fewer_rules() {
    let graph = text::parse(common::ops(), PARTS).unwrap();
    let mut fewer = common::options(1);
    for phase in fewer.pipeline.passes_mut::<Rewrite>() {
        phase.rules.retain(|rules| rules.value != "winograd");
    }
    let rival = compile::compile(graph.clone(), &fewer).unwrap().plan;
    let points = plans(&graph, &common::options(1));
    for point in points.iter().filter(|point| point.proven && memory(&rival) <= point.bytes()) {
        assert!(point.seconds <= rival.seconds() * (1.0 + 1e-9), "{point:?} against {} s", rival.seconds());
    }
    assert!(points.iter().any(|point| memory(&rival) <= point.bytes()));
}

#[test]
fn a_limit_does_not_disable_the_weight_of_memory() {
    let graph = text::parse(common::ops(), SCRATCH).unwrap();
    let points = plans(&graph, &common::options(2));
    let mut options = weighed(1e9);
    options.pipeline.plan_mut().unwrap().limits = Limit::host(usize::MAX >> 8);
    assert_eq!(memory(&plan(&graph, &options)), points.last().unwrap().bytes());
}

/// The first operand of the concatenation is computed long before the second. If it is computed within the
/// result, the whole result is live from then on. (Its 63 pixels are too few for Strassen's algorithm, whose
/// scratch would give another way to save memory.)
fn early(first: usize, second: usize) -> Graph {
    let text = format!(
        "graph early {{
 x: f32[1,16,7,9] = input
 w: f32[{first},16,1,1] = const ~1
 v: f32[2048,{first},1,1] = const ~2
 u: f32[{second},2048,1,1] = const ~3
 b: f32[{first}] = const ~4
 c: f32[2048] = const ~5
 d: f32[{second}] = const ~6
 p = conv(x, w, b)
 q = conv(p, v, c)
 m = max-pool(q) {{kernel: [3,3], pads: [1,1,1,1]}}
 r = conv(m, u, d)
 t = concat(p, r) {{axis: 1}}
 y = relu(t)
 return y
}}"
    );
    text::parse(common::ops(), &text).unwrap()
}

/// The operands that the concatenation copies.
fn copied(plan: &Plan) -> Vec<usize> {
    let step = plan.steps.iter().find(|step| step.op.name.ends_with(".concat"));
    step.map_or_else(Vec::new, |step| (0..2).filter(|operand| !step.joined.contains(operand)).collect())
}

#[test]
fn a_concatenation_is_copied_if_a_limit_or_the_weight_of_memory_requires_it() {
    // If the operands have the same size, copying the first costs more than the bytes at the peak are worth…
    let graph = early(256, 256);
    let points = plans(&graph, &heuristic(common::options(2)));
    let fastest = plan(&graph, &heuristic(common::options(2)));
    assert_eq!((copied(&fastest), memory(&fastest)), (vec![], points[0].bytes()), "{fastest}");
    // …unless there is no other way to fit into the memory.
    let smaller = plan(&graph, &heuristic(limited(Some(memory(&fastest) - 1))));
    assert_eq!(copied(&smaller), [0], "{smaller}");
    assert!(smaller.steps.iter().any(|step| step.copies > 0.0));
    let on_the_curve = |point: &&Point| point.bytes() == memory(&smaller);
    assert!(points.iter().find(on_the_curve).is_some_and(|point| !point.proven), "{points:?}");
    assert_eq!(memory(&plan(&graph, &heuristic(weighed(1e9)))), points.last().unwrap().bytes());
    // A small operand is copied without a limit.
    let small = plan(&early(16, 512), &heuristic(common::options(2)));
    assert_eq!(copied(&small), [0], "{small}");
    for graph in [graph, early(16, 512)] {
        let inputs = common::inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        for point in plans(&graph, &heuristic(common::options(2))) {
            let compilation =
                compile::compile(graph.clone(), &heuristic(limited(Some(point.bytes())))).unwrap();
            assert!(memory(&compilation.plan) <= point.bytes());
            let mut session =
                Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
            let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
            assert!(common::relative_error(&outputs[0], &reference[0]) < 1e-4);
        }
    }
}

/// Two convolutions with many weights and small images: the arena is next to nothing, and Winograd's algorithm wants
/// four times the bytes of the weights for each.
const WEIGHTS: &str = "graph weights {
 x: f32[1,256,14,14] = input
 w: f32[256,256,3,3] = const ~1
 v: f32[64,256,3,3] = const ~2
 b: f32[256] = const ~3
 c: f32[64] = const ~4
 y = conv(x, w, b) {pads: [1,1,1,1]}
 r = relu(y)
 z = conv(r, v, c) {pads: [1,1,1,1]}
 return z
}";

#[test]
fn packed_weights_count_in_a_limit_and_in_the_worth_of_memory() {
    let graph = text::parse(common::ops(), WEIGHTS).unwrap();
    let fastest = plan(&graph, &common::options(1));
    let constants = |plan: &Plan| plan.constants_of(Device::Host);
    let winograd = |plan: &Plan| plan.steps.iter().filter(|step| step.op.name.contains("winograd")).count();
    let plain = graph.constant_bytes();
    assert_eq!(winograd(&fastest), 2, "{fastest}");
    assert!(constants(&fastest) > 3 * plain, "{} of {plain}", constants(&fastest));
    // What is kept is what the session has.
    let compilation = compile::compile(graph.clone(), &common::options(1)).unwrap();
    let kept = Session::constants_of(&compilation.program, &compilation.plan);
    assert_eq!(kept.values().map(|tensor| tensor.bytes().len()).sum::<usize>(), constants(&fastest));
    let all = compilation.plan.kept(&compilation.program);
    assert!(
        matches!(all[..], [one] if one.bytes == constants(&fastest) && one.computed > 3 * plain),
        "{all:?}"
    );

    let points = one_thread(&graph, None);
    let few = points.last().unwrap();
    assert!(few.constants < 2 * plain, "{points:?}");
    // Between these are plans that keep some of the bytes.
    let between = points.iter().filter(|point| few.constants < point.constants);
    assert!(between.clone().any(|point| point.constants < constants(&fastest)), "{points:?}");
    for point in &points {
        let compilation = limited_to(&graph, point.bytes());
        assert!(memory(&compilation) <= point.bytes(), "{point:?}");
        assert_eq!(constants(&compilation) + compilation.arena, memory(&compilation));
        assert!(compilation.seconds() <= point.seconds * (1.0 + 1e-9), "{point:?}");
    }
    // More than the arena can give.
    let within = limited_to(&graph, memory(&fastest) - (2 << 20));
    // Smaller tiles keep fewer bytes of weights, and still multiply less than the direct sum.
    assert!(winograd(&within) > 0 && constants(&within) < constants(&fastest), "{within}");
    assert!(fastest.seconds() < within.seconds() && within.seconds() < few.seconds, "{within}");
    let error = compile::compile(graph.clone(), &limited(Some(plain))).unwrap_err().to_string();
    assert!(error.contains(" of them hold constants, such as packed weights, and "), "{error}");
    // A mebibyte that is worth an hour leaves the fewest bytes, and the sum says so.
    let mut weighed = weighed(3.6e6);
    weighed.threads = 1;
    assert_eq!(memory(&plan(&graph, &weighed)), few.bytes());
}

fn one_thread(graph: &Graph, limit: Option<usize>) -> Vec<Point> {
    plans(graph, &Options { threads: 1, ..limited(limit) })
}

fn limited_to(graph: &Graph, bytes: usize) -> Plan {
    plan(graph, &Options { threads: 1, ..limited(Some(bytes)) })
}

/// The objective that includes memory is the least among all points of the curve, and it is reported as
/// proven only if nothing was left out.
#[test]
fn a_proof_under_a_weight_of_memory_is_about_the_whole_objective() {
    let mut proven = 0;
    for graph in [text::parse(common::ops(), SCRATCH).unwrap(), model("squeezenet1_1")] {
        let points = plans(&graph, &common::options(2));
        for weight in [1e-6, 0.1, 1.17, 1e3] {
            let compilation = compile::compile(graph.clone(), &weighed(weight)).unwrap();
            let Some(PassReport::Extract { extraction, objective: Some(objective), .. }) =
                compilation.extraction()
            else {
                panic!("memory was weighed");
            };
            assert_eq!((objective.arena, objective.worth), (compilation.plan.arena, weight));
            assert_eq!(objective.seconds, extraction.cost);
            let sum =
                |seconds: f64, bytes: usize| seconds + weight * 1e-3 * bytes as f64 / f64::from(1 << 20);
            assert_eq!(objective.bytes(), memory(&compilation.plan));
            assert!((objective.sum() - sum(objective.seconds, objective.bytes())).abs() < 1e-15);
            assert!(objective.bound <= objective.sum(), "{objective:?}");
            for point in &points {
                let other = sum(point.seconds, point.bytes());
                assert!(objective.sum() <= other * (1.0 + 1e-9), "{objective:?} {point:?}");
                assert!(objective.bound <= other * (1.0 + 1e-9), "{objective:?} {point:?}");
            }
            assert_eq!(objective.proven(), objective.sum() <= objective.bound * (1.0 + 1e-9));
            proven += usize::from(objective.proven());
        }
        let plain = compile::compile(graph, &common::options(2)).unwrap();
        assert!(matches!(plain.extraction(), Some(PassReport::Extract { objective: None, .. })));
    }
    assert!(proven > 2, "{proven}");
}

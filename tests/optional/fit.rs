//! Snapshots of plans under a memory limit and of operands within a concatenation, in the layouts of plans for
//! AVX-512.

use crate::common;
use ovolo::compile;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};

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

/// A concatenation of computed values, of one value twice, of an input and of a constant.
const BRANCHES: &str = "graph branches {
 x: f32[1,16,8,8] = input
 w: f32[16,16,1,1] = const ~1
 b: f32[16] = const ~2
 k: f32[1,16,8,8] = const ~3
 y = conv(x, w, b)
 r = relu(y)
 m = max-pool(r) {kernel: [3,3], pads: [1,1,1,1]}
 c = concat(r, m, y, r, x, k) {axis: 1}
 return c
}";

/// Compares with `snapshots/fit/NAME.snap`.
fn compare(name: &str, report: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(common::root().join("snapshots/fit"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
}

/// The error of a compilation for two threads within so many bytes.
fn refusal(graph: Graph, limit: usize) -> String {
    let mut options = common::options(2);
    options.pipeline.plan_mut().unwrap().limits = Some(limit).into();
    compile::compile(graph, &options).unwrap_err().to_string()
}

pub fn the_obstacle_to_a_smaller_plan_is_named() {
    let scratch = text::parse(common::ops(), SCRATCH).unwrap();
    compare("what_stands_in_the_way", &refusal(scratch, 100_000));
    let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let path = common::root().join("tests/models/squeezenet1_1.onnx");
    let squeezenet = onnx::load(common::registry().onnx(), &path, &import).unwrap().graph;
    compare("what_stands_in_the_way_of_squeezenet", &refusal(squeezenet, 1 << 20));
}

pub fn operands_lie_within_the_concatenation() {
    let graph = text::parse(common::ops(), BRANCHES).unwrap();
    compare("operands_where_they_belong", &common::compile(graph, 2).plan.to_string());
}

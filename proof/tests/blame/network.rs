//! Small networks whose plans use many rules and kernels.

use ovolo::graph::{Graph, text};
use ovolo::op::Ops;

/// Names and texts of the networks.
const NETWORKS: &[(&str, &str)] = &[
    ("residual", include_str!("../../../tests/cases/residual_block_adds_where_it_stores.ovolo")),
    ("gelu", include_str!("../../../tests/cases/gelu_is_one_map_after_matmul.ovolo")),
    ("branches", include_str!("../../../tests/cases/concat_of_branches_stays_blocked.ovolo")),
    ("attention", include_str!("../../../tests/cases/attention_is_one_step.ovolo")),
    ("batch-norm", include_str!("../../../tests/cases/batch_norm_folds_into_conv.ovolo")),
    ("depthwise", include_str!("../../../tests/cases/depthwise_and_few_channels_in_narrow_blocks.ovolo")),
    (
        "shapes",
        "graph shapes {
  x: f32[2,6,8] = input
  w: f32[8,12] = const ~1
  b: f32[12] = const ~2
  m = matmul(x, w)
  a = add(m, b)
  t = transpose(a) {perm: [0,2,1]}
  s = softmax(t) {axis: 2}
  u = transpose(s) {perm: [0,2,1]}
  p = mul(u, a)
  h = sigmoid(p)
  g = mul(p, h)
  r = reduce-sum(g) {axes: [1]}
  y = tanh(r)
  return y = y
}",
    ),
    (
        "elements",
        "graph elements {
  x: f32[4,24] = input
  y: f32[4,24] = input
  c: f32[24] = const ~1
  d: f32[24] = const ~2
  a = sub(x, y)
  b = mul(a, c)
  e = add(b, d)
  f = relu(e)
  g = neg(f)
  h = exp(g)
  i = max(h, c)
  j = slice(i) {starts: [0,4], sizes: [4,16], steps: [1,1]}
  return j = j
}",
    ),
];

/// Returns the networks, with their names.
pub fn all(ops: &Ops) -> Vec<(&'static str, Graph)> {
    let parse = |text| text::parse(ops, text).unwrap_or_else(|error| panic!("{error}"));
    NETWORKS.iter().map(|(name, text)| (*name, parse(text))).collect()
}

//! Tests of `src/graph/diff.rs`.

use crate::units::fixture::ops;
use ovolo::graph::diff;
use ovolo::graph::text::parse;

const BEFORE: &str = "\
graph tiny {
  x: f32[1,16,8,8] = input
  w: f32[16,16,3,3] = const ~1
  b: f32[16] = const splat 0.0
  conv1 = conv(x, w, b) {pads: [1,1,1,1]}
  relu1 = relu(conv1)
  soft = softmax(relu1) {axis: 1}
  return y = soft
}";

fn changes(edit: impl Fn(&str) -> String) -> String {
    diff(&parse(ops(), BEFORE).unwrap(), &parse(ops(), &edit(BEFORE)).unwrap()).to_string()
}

#[test]
fn a_graph_does_not_differ_from_itself() {
    assert_eq!(changes(str::to_owned), "");
}

#[test]
fn a_fusion_removes_one_node_and_changes_another() {
    let fused = |text: &str| {
        text.replace("  conv1 = conv(x, w, b) {pads: [1,1,1,1]}\n", "")
            .replace("relu(conv1)", "conv(x, w, b) {pads: [1,1,1,1], post: <relu>}")
    };
    insta::assert_snapshot!(changes(fused), @r#"
        - conv1: f32[1,16,8,8] = conv(x, w, b) {pads: [1,1,1,1]}
        ~ relu1: relu(conv1) => conv(x, w, b) {pads: [1,1,1,1], post: <relu>}
        "#);
}

#[test]
fn a_renamed_value_does_not_make_its_users_differ() {
    assert_eq!(changes(|text| text.replace("conv1", "/a/Conv")), "~ conv1 is now /a/Conv\n");
    assert_eq!(changes(|text| text.replace("w:", "w2:").replace(" w,", " w2,")), "~ w is now w2\n");
}

#[test]
fn values_types_and_outputs_are_compared() {
    let before = "~ w: const #";
    assert!(changes(|text| text.replace("~1", "~2")).starts_with(before));
    assert_eq!(changes(|text| text.replace("y = soft\n", "y = relu1\n")), "~ return y = soft => relu1\n");
    assert_eq!(
        changes(|text| text.replace("return y", "return z")),
        "- return y = soft\n+ return z = soft\n"
    );
    assert_eq!(changes(|text| text.replace("tiny", "other")), "~ graph tiny => graph other\n");
    let batch = changes(|text| text.replace("f32[1,16,8,8]", "f32[2,16,8,8]"));
    assert_eq!(batch.lines().next(), Some("~ x: f32[1,16,8,8] => f32[2,16,8,8]"));
    assert_eq!(batch.lines().count(), 4);
    let twice = changes(|text| text.replace("return", "return a = x\n return"));
    assert_eq!(twice, "+ return a = x\n");
}

#[test]
fn added_and_removed_nodes_stand_where_they_are() {
    let edited = |text: &str| {
        text.replace("soft = softmax(relu1) {axis: 1}", "p = neg(relu1)\n q = abs(p)")
            .replace("y = soft", "y = q")
    };
    insta::assert_snapshot!(changes(edited), @r#"
        - soft: f32[1,16,8,8] = softmax(relu1) {axis: 1}
        + p: f32[1,16,8,8] = neg(relu1)
        + q: f32[1,16,8,8] = abs(p)
        ~ return y = soft => q
        "#);
}

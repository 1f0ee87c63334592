//! Tests of `src/graph/dot.rs`.

use crate::units::fixture::ops;
use ovolo::graph::dot::to_dot;
use ovolo::graph::text;

#[test]
fn constants_stand_in_the_boxes_of_their_users() {
    let graph = text::parse(
        ops(),
        "graph \"a \\\"b\\\"\" { x: f32[1,16,2,2] = input; c: f32[1] = const [2.0]; y = add(x, c)
             p = pack(y) {layout: nChw16c}; return p; return c }",
    );
    insta::assert_snapshot!(to_dot(&graph.unwrap()), @r##"
        digraph "a \"b\"" {
          node [shape=box, fontname="Helvetica", fontsize=10];
          edge [fontname="Helvetica", fontsize=9];
          n0 [label="x\ninput\nf32[1,16,2,2]", style="rounded,filled", fillcolor="#e8f0fe"];
          n1 [label="c\nconst\nf32[1]"];
          n2 [label="y\nadd"];
          n0 -> n2 [label="f32[1,16,2,2]"];
          n1 -> n2 [label="f32[1]"];
          n3 [label="p\npack {layout: nChw16c}", style=filled, fillcolor="#fef3e0"];
          n2 -> n3 [label="f32[1,16,2,2]"];
          o0 [label="p", style="rounded,filled", fillcolor="#e8f0fe"];
          n3 -> o0 [label="f32[1,16,2,2]@nChw16c"];
          o1 [label="c", style="rounded,filled", fillcolor="#e8f0fe"];
          n1 -> o1 [label="f32[1]"];
        }
        "##);
    let graph =
        text::parse(ops(), "graph { x: f32[2] = input; c: f32[2] = const ~1; y = add(x, c); return y }")
            .unwrap();
    assert!(!to_dot(&graph).contains("n1 "));
}

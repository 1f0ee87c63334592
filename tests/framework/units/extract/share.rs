//! Tests of `src/extract/share.rs`.

#[allow(dead_code)]
#[path = "../../../../src/extract/share.rs"]
mod source;

use super::node::{self, Node};
use source::improve;

fn node(cost: f64, children: &[u32]) -> Node {
    Node { cost, children: children.to_vec(), index: 0 }
}

#[test]
fn two_classes_move_to_what_they_share_together() {
    // Classes 1 and 2 cost 5 each alone, and nothing if they read class 3, which costs 6.
    let classes = vec![
        vec![node(0.0, &[1, 2])],
        vec![node(5.0, &[]), node(0.0, &[3])],
        vec![node(5.0, &[]), node(0.0, &[3])],
        vec![node(6.0, &[])],
    ];
    let mut choice = vec![Some(0); 4];
    improve(&classes, &[0], &mut choice);
    assert_eq!(choice, [Some(0), Some(1), Some(1), Some(0)]);
}

#[test]
fn a_step_that_ties_a_knot_is_taken_back() {
    let classes = vec![
        vec![node(0.0, &[1, 2])],
        vec![node(5.0, &[]), node(0.0, &[3])],
        vec![node(5.0, &[1]), node(0.0, &[3])],
        vec![node(1.0, &[2])],
    ];
    let mut choice = vec![Some(0); 4];
    improve(&classes, &[0], &mut choice);
    assert_eq!(choice, [Some(0), Some(0), Some(0), Some(0)]);
}

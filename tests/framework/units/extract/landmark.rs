//! Tests of `src/extract/landmark.rs`.

#[allow(dead_code)]
#[path = "../../../../src/extract/landmark.rs"]
mod source;

use super::node::{self, Node};
use source::landmarks;

fn node(cost: f64, children: &[u32]) -> Node {
    Node { cost, children: children.to_vec(), index: 0 }
}

#[test]
fn what_every_selection_pays_is_counted_once() {
    // Two classes depend on a third one, which costs 4 or 6.
    let classes = vec![
        vec![node(1.0, &[1, 2])],
        vec![node(2.0, &[3]), node(9.0, &[])],
        vec![node(3.0, &[3])],
        vec![node(6.0, &[]), node(4.0, &[])],
    ];
    let found = landmarks(&classes, &[0], usize::MAX);
    assert_eq!(found.bound, 10.0);
    assert_eq!(found.beyond[3], [2.0, 0.0]);
}

#[test]
fn a_cycle_makes_nothing_for_nothing() {
    let classes = vec![vec![node(0.0, &[1]), node(5.0, &[])], vec![node(0.0, &[0]), node(3.0, &[])]];
    assert_eq!(landmarks(&classes, &[0], usize::MAX).bound, 3.0);
}

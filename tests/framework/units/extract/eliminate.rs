//! Tests of `src/extract/eliminate.rs`.

#[allow(dead_code)]
#[path = "../../../../src/extract/eliminate.rs"]
mod source;

use super::canonical::{self, Work};
use super::node::{self, Node};
use source::{Made, eliminate};

fn node(cost: f64, children: &[u32], index: u32) -> Node {
    Node { cost, children: children.to_vec(), index }
}

#[test]
fn a_class_that_one_class_reads_goes_into_it_and_comes_back() {
    let classes = vec![
        vec![node(1.0, &[1], 0), node(9.0, &[2], 1)],
        vec![node(2.0, &[], 0), node(3.0, &[2], 1)],
        vec![node(4.0, &[], 0)],
    ];
    let mut work = Work { classes, roots: vec![0], original: Vec::new(), total: 0 };
    let mut made = Made::default();
    assert!(eliminate(&mut work, &mut made, |_, _| {}));
    // Now only class 0 reads class 2.
    assert!(eliminate(&mut work, &mut made, |_, _| {}));
    assert!(work.classes[1].is_empty() && work.classes[2].is_empty());
    let costs: Vec<f64> = work.classes[0].iter().map(|node| node.cost).collect();
    assert_eq!(costs, [3.0, 8.0, 13.0]);
    assert!(!eliminate(&mut work, &mut made, |_, _| {}));
    let mut choice = vec![None; 3];
    made.restore(0, work.classes[0][1].index, &mut choice);
    assert_eq!(choice, [Some(0), Some(1), Some(0)]);
}

#[test]
fn what_several_read_stays() {
    let classes = vec![
        vec![node(1.0, &[1, 2], 0)],
        vec![node(2.0, &[3], 0), node(5.0, &[], 1)],
        vec![node(2.0, &[3], 0), node(5.0, &[], 1)],
        vec![node(4.0, &[], 0), node(6.0, &[], 1)],
    ];
    let mut work = Work { classes, roots: vec![0, 1, 2], original: Vec::new(), total: 0 };
    assert!(!eliminate(&mut work, &mut Made::default(), |_, _| {}));
}

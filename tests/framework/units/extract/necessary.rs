//! Tests of `src/extract/necessary.rs`.

#[allow(dead_code)]
#[path = "../../../../src/extract/necessary.rs"]
pub mod source;

use super::canonical::{self, Work};
use super::node::Node;
use source::necessary;

fn work(classes: &[&[&[u32]]]) -> Work {
    let node = |children: &&[u32]| Node { cost: 1.0, children: children.to_vec(), index: 0 };
    let classes = classes.iter().map(|nodes| nodes.iter().map(node).collect()).collect();
    Work { classes, roots: vec![0], original: Vec::new(), total: 0 }
}

#[test]
fn what_all_ways_lead_through_is_necessary() {
    // Both ways from 0 lead to 3, one through 1 and one through 2; 4 is needed by only one of them.
    let work = work(&[&[&[1], &[2]], &[&[3]], &[&[3, 4]], &[&[]], &[&[]]]);
    assert_eq!(necessary(&work, 1000), [true, false, false, true, false]);
    // Without visits, only the roots are known to be necessary.
    assert_eq!(necessary(&work, 0), [true, false, false, false, false]);
}

#[test]
fn forms_that_make_one_another_rest_on_what_makes_one_of_them() {
    let work = work(&[&[&[1]], &[&[2], &[3]], &[&[1], &[3]], &[&[]]]);
    assert_eq!(necessary(&work, 1000), [true, true, false, true]);
}

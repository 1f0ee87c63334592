//! Tests of `src/extract/relax.rs`.

#[allow(dead_code)]
#[path = "../../../../src/extract/relax.rs"]
mod source;

use super::canonical::{self, Trees, Work};
use super::component::{self, Components};
use super::necessary::source as necessary;
use super::node::{self, Node};
use super::order;
use source::{Shared, relax};

/// A chain of four classes. Each costs 5 alone, or nothing if it reads one shared class, which costs 7.
fn chain() -> Work {
    let node = |cost: f64, children: &[u32]| Node { cost, children: children.to_vec(), index: 0 };
    let link = |next: &[u32]| vec![node(5.0, next), node(0.0, &[next, &[4]].concat())];
    let classes = vec![link(&[1]), link(&[2]), link(&[3]), link(&[]), vec![node(7.0, &[])]];
    Work { classes, roots: vec![0], original: Vec::new(), total: 0 }
}

#[test]
fn parts_of_what_all_share_prove_the_cheapest() {
    let work = chain();
    let components = Components::new(&work);
    let plan = order::down(&work, &components);
    let cheapest = |left: &Work| Some(Trees::new(&left.classes).choice);
    let shared = Shared::new(&work, &plan, &components, 1000);
    let found = relax(&work, &shared, cheapest).unwrap();
    assert!(found.proven());
    assert_eq!((found.cost, found.bound), (7.0, 7.0));
    assert_eq!(found.choice, [Some(1), Some(1), Some(1), Some(1), Some(0)]);
    assert!(relax(&work, &shared, |_| None).is_none());
}

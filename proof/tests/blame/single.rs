//! Single facts about comparisons.

use super::{common, compared, network};
use ovolo::graph::{Graph, text};
use ovolo::tensor::{DType, Tensor};
use ovolo_proof::compare::{self, Cause, Settings};
use std::collections::BTreeMap;

fn parse(text: &str) -> Graph {
    text::parse(common::ops(), text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn networks_without_a_fault_agree() {
    for (name, graph) in network::all(common::ops()) {
        let comparison = compared(&graph, &mut common::options(1)).unwrap();
        assert!(!comparison.departs(), "{name}: {comparison:?}");
        assert!(comparison.compared > 0, "{name}: no step computes a value of the model");
    }
}

#[test]
fn rounding_that_a_difference_of_large_numbers_makes_visible_is_told_as_rounding() {
    // The sum over 64 elements near 1e4 rounds to about 1e-7 of it; less its own mean, little else is left.
    let graph = parse(
        "graph cancel {
  x: f32[8,64] = input
  w: f32[64,64] = const ~1
  m = matmul(x, w)
  n = matmul(m, w)
  y = sub(n, m)
  z = sub(y, n)
  s = add(z, m)
  return s = s
}",
    );
    let inputs = common::inputs(&graph);
    let settings = Settings { tolerance: 1e-6, bisect: false };
    let found =
        compare::compare(&graph, &mut common::options(1), &inputs, &BTreeMap::new(), settings).unwrap();
    let departure = found.departure.expect("`s` is rounding noise, so it departs");
    assert!(matches!(departure.cause, Cause::Rounding { .. }), "{departure:?}");
}

#[test]
fn a_value_of_another_runtime_that_differs_from_the_reference_blames_the_import() {
    let graph = parse(
        "graph other {
  x: f32[2,4] = input
  a = exp(x)
  b = add(a, x)
  return b = b
}",
    );
    let inputs = common::inputs(&graph);
    let other = Tensor::from_f64(DType::F32, [2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let given = BTreeMap::from([("b".to_owned(), other)]);
    let settings = Settings { tolerance: 1e-3, bisect: false };
    let found = compare::compare(&graph, &mut common::options(1), &inputs, &given, settings).unwrap();
    assert!(found.departs());
    let departure = found.departure.unwrap();
    assert_eq!(departure.value, "b");
    assert!(matches!(&departure.cause, Cause::Import { value, .. } if value == "b"), "{departure:?}");
}

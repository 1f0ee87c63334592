//! Tests of `src/op/forest.rs`.

use ovolo::op::forest::{holds, leaf};

#[test]
fn tests_follow_the_mode_and_the_missing_value() {
    let row = |value: f64| [0, 2, 4, 6, 8, 10].map(|mode| holds(mode, value, 1.0));
    assert_eq!(row(1.0), [true, false, true, false, true, false]);
    assert_eq!(row(0.5), [true, true, false, false, false, true]);
    assert_eq!(row(f64::NAN), [false, false, false, false, false, true]);
    assert!([1, 3, 5, 7, 9, 11].into_iter().all(|mode| holds(mode, f64::NAN, 1.0)));
}

#[test]
fn nodes_that_are_no_tree_have_no_leaf() {
    assert_eq!(leaf(&[0, 0, 0, 0], 0, 9, |_, _, _| true), 0..0);
    assert_eq!(leaf(&[0, 0, 7, 7], 0, 9, |_, _, _| true), 0..0);
    assert_eq!(leaf(&[-1, 0, 2, 5], 0, 9, |_, _, _| true), 2..5);
    // Entries that do not exist are left out.
    assert_eq!(leaf(&[-1, 0, 2, i32::MAX], 0, 4, |_, _, _| true), 2..4);
}

//! Tests of `src/cost/rank.rs`.

use ovolo::cost::{median_error, spearman};

#[test]
fn order_alone_counts_and_ties_share_their_ranks() {
    assert_eq!(spearman(&[1.0, 2.0, 30.0], &[0.1, 0.2, 0.3]), Some(1.0));
    assert_eq!(spearman(&[3.0, 2.0, 1.0], &[0.1, 0.2, 0.3]), Some(-1.0));
    // Computed by hand from the ranks 0.5 0.5 2 3 and 0 1 2 3.
    let tied = spearman(&[1.0, 1.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).expect("there is an order");
    assert!((tied - 4.5 / (4.5_f64 * 5.0).sqrt()).abs() < 1e-12, "{tied}");
    assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
    assert_eq!(spearman(&[], &[]), None);
}

#[test]
fn errors_are_shares_of_what_was_seen() {
    let error = median_error(&[1.1, 2.0, 9.0], &[1.0, 2.0, 3.0]).expect("there are some");
    assert!((error - 0.1).abs() < 1e-12, "{error}");
    assert_eq!(median_error(&[], &[]), None);
    // For an even number of values, the median is the mean of the two middle ones.
    let error = median_error(&[1.1, 1.3, 9.0, 1.0], &[1.0; 4]).expect("there are some");
    assert!((error - 0.2).abs() < 1e-12, "{error}");
}

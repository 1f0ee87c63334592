//! Tests of `src/rule/interval.rs`.

use ovolo::rule::Interval;

#[test]
fn ends_belong_to_an_interval_and_rounding_does_not_take_them_out() {
    let interval = Interval { least: 0.0, most: 0.7 };
    assert!(interval.holds(0.0) && interval.holds(f64::from(0.7f32)));
    assert!(!interval.holds(-1e-9) && !interval.holds(0.71) && !interval.holds(f64::NAN));
    assert!(Interval { least: 0.0, most: f64::INFINITY }.holds(f64::INFINITY));
    assert!(Interval::point(0.1).holds(f64::from(0.1f32)));
}

//! Ranges, scales and levels.

use ovolo_quantize::{Range, levels_of_bias, levels_of_weights};

#[test]
#[allow(clippy::float_cmp)]
fn a_range_contains_zero_and_zero_is_a_level() {
    let known = [
        ((-1.0, 3.0), (-1.0, 3.0), 4.0 / 255.0, 64),
        ((0.0, 5.1), (0.0, 5.1), 5.1 / 255.0, 0),
        ((2.0, 5.1), (0.0, 5.1), 5.1 / 255.0, 0),
        ((-2.55, -1.0), (-2.55, 0.0), 2.55 / 255.0, 255),
        ((0.0, 0.0), (0.0, 0.0), 1.0, 0),
        ((-1e-44, 1e-44), (-1e-44, 1e-44), 1.0, 0),
    ];
    for ((low, high), (first, last), scale, zero) in known {
        let range = Range::new(low, high);
        assert_eq!((range.low(), range.high()), (first, last));
        assert!((range.scale() - scale).abs() <= scale * 1e-6, "{range:?} has scale {}", range.scale());
        assert_eq!(range.zero_point(), zero, "{range:?}");
    }
    // The difference of the ends is beyond binary32, and the scale is not.
    let wide = Range::new(f32::MIN, f32::MAX);
    assert!(wide.scale().is_finite());
    assert_eq!(wide.zero_point(), 128);
}

#[test]
#[allow(clippy::float_cmp)]
fn each_channel_of_weights_has_a_scale() {
    let values = [1.27, -0.5, 0.0, 0.0, -2.54, 0.02];
    let rows = levels_of_weights(&values, &[3, 2], 0);
    assert_eq!(rows.levels, [127, -50, 0, 0, -127, 1]);
    assert_eq!(rows.scales, [1.27 / 127.0, 1.0, 2.54 / 127.0]);
    let columns = levels_of_weights(&values, &[3, 2], 1);
    assert_eq!(columns.scales, [2.54 / 127.0, 0.5 / 127.0]);
    assert_eq!(columns.levels, [64, -127, 0, 0, -127, 5]);
    // The elements of a window belong to the channel before it.
    let window = levels_of_weights(&[1.0, 2.0, 4.0, 8.0], &[2, 1, 1, 2], 0);
    assert_eq!(window.scales, [2.0 / 127.0, 8.0 / 127.0]);
    assert_eq!(window.levels, [64, 127, 64, 127]);
}

#[test]
#[allow(clippy::float_cmp)]
fn a_bias_has_the_scale_of_the_sums_or_stays_a_float() {
    let bias = levels_of_bias(&[1.0, -0.3], 0.5, &[0.25, 0.1]).unwrap();
    assert_eq!(bias.scales, [0.125, 0.05]);
    assert_eq!(bias.levels, [8, -6]);
    assert_eq!(levels_of_bias(&[1e9], 1e-3, &[1e-3]), None, "the level is beyond 32 bits");
    assert_eq!(levels_of_bias(&[1.0], 1e-30, &[1e-30]), None, "the scale is no normal number");
    assert_eq!(levels_of_bias(&[1.0], 1.0, &[1.0, 1.0]), None, "there are two channels");
}

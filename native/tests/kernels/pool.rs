//! Tests of pools against the reference evaluations.

use crate::check::{Random, verify};
use crate::fixture::ops;
use ovolo::attr::Attrs;
use ovolo::tensor::Layout;

fn attrs() -> Attrs {
    Attrs::new()
}

#[test]
fn pools_agree_with_the_reference() {
    let mut random = Random::new(32);
    for op in ["native.max-pool", "native.avg-pool"] {
        for (size, kernel, strides, dilations, pads) in [
            ([9, 40], [2, 2], [2, 2], [1, 1], [0, 0, 0, 0]),
            ([5, 37], [3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
            ([6, 50], [1, 5], [1, 3], [1, 2], [0, 4, 0, 1]),
            ([1, 40], [1, 40], [1, 1], [1, 1], [0, 0, 0, 0]),
            ([2, 1500], [2, 3], [1, 1], [1, 1], [1, 2, 0, 2]),
            ([3, 1500], [3, 1200], [1, 7], [1, 1], [0, 3, 0, 0]),
        ] {
            for name in ["plain", "nChw8c", "nhwc"] {
                let x = random.f32([2, 11, size[0], size[1]]).to_layout(&name.parse::<Layout>().unwrap());
                let attributes =
                    attrs().ints("kernel", &kernel).ints("strides", &strides).ints("pads", &pads);
                let attributes = match op {
                    "native.max-pool" => attributes.ints("dilations", &dilations),
                    _ => attributes.int("count-include-pad", i64::from(strides[0] == 1)),
                };
                verify(op, &ops().get(op).unwrap().complete(attributes), &[&x], 1e-5);
            }
        }
    }
}

#[test]
fn a_window_without_pixels_leaves_the_padding_of_channels_zero() {
    let mut random = Random::new(33);
    for name in ["plain", "nChw8c", "nhwc"] {
        let x = random.f32([1, 11, 3, 2]).to_layout(&name.parse::<Layout>().unwrap());
        // The columns of the first window are to the left and to the right of the image.
        let attributes =
            attrs().ints("kernel", &[1, 2]).ints("dilations", &[1, 3]).ints("pads", &[0, 1, 0, 1]);
        verify("native.max-pool", &ops().get("native.max-pool").unwrap().complete(attributes), &[&x], 0.0);
    }
}

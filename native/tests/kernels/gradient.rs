//! Tests of kernels for gradients against the reference evaluations.

use crate::check::{Random, verify};
use crate::fixture::ops;
use ovolo::attr::Attrs;
use ovolo::tensor::{Layout, Tensor};

fn packed(tensor: &Tensor, layout: &str) -> Tensor {
    tensor.to_layout(&layout.parse::<Layout>().unwrap())
}

/// A convolution whose weights have a gradient.
struct Shape {
    batch: usize,
    channels: usize,
    outputs: usize,
    groups: i64,
    image: [usize; 2],
    kernel: [i64; 2],
    strides: [i64; 2],
    pads: [i64; 4],
    dilations: [i64; 2],
}

const PLAIN: Shape = Shape {
    batch: 2,
    channels: 16,
    outputs: 16,
    groups: 1,
    image: [8, 9],
    kernel: [3, 3],
    strides: [1, 1],
    pads: [1, 1, 1, 1],
    dilations: [1, 1],
};

impl Shape {
    fn attrs(&self) -> Attrs {
        Attrs::new()
            .ints("kernel", &self.kernel)
            .ints("strides", &self.strides)
            .ints("pads", &self.pads)
            .ints("dilations", &self.dilations)
            .int("groups", self.groups)
    }

    /// Returns an image and the gradient of the convolution's result.
    fn operands(&self, random: &mut Random) -> [Tensor; 2] {
        let size = |at: usize| {
            let number = |value: i64| usize::try_from(value).unwrap();
            let reach = number((self.kernel[at] - 1) * self.dilations[at] + 1);
            let padded = self.image[at] + number(self.pads[at] + self.pads[at + 2]);
            (padded - reach) / number(self.strides[at]) + 1
        };
        [
            random.f32([self.batch, self.channels, self.image[0], self.image[1]]),
            random.f32([self.batch, self.outputs, size(0), size(1)]),
        ]
    }

    fn check(&self, layouts: [&str; 2]) {
        let [x, d] = self.operands(&mut Random::new(41));
        let (x, d) = (packed(&x, layouts[0]), packed(&d, layouts[1]));
        let op = "native.conv-weight-gradient";
        verify(op, &ops().get(op).unwrap().complete(self.attrs()), &[&x, &d], 1e-3);
    }
}

#[test]
fn gradients_of_weights_agree_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { channels: 20, outputs: 37, ..PLAIN },
        Shape { kernel: [1, 1], pads: [0; 4], ..PLAIN },
        Shape { kernel: [1, 1], pads: [0; 4], strides: [2, 2], channels: 33, ..PLAIN },
        Shape { strides: [2, 2], image: [9, 12], pads: [0, 1, 1, 0], ..PLAIN },
        Shape { dilations: [2, 3], image: [11, 13], ..PLAIN },
        Shape { channels: 32, outputs: 64, groups: 2, batch: 3, ..PLAIN },
        Shape { kernel: [3, 1], image: [12, 1], pads: [1, 0, 1, 0], ..PLAIN },
        // Some columns of the window see only padding.
        Shape { kernel: [3, 7], image: [4, 2], pads: [1, 5, 1, 5], ..PLAIN },
        // Several bands of rows.
        Shape { channels: 64, outputs: 32, image: [60, 40], batch: 1, ..PLAIN },
    ];
    for shape in shapes {
        shape.check(["nChw16c", "nChw16c"]);
        shape.check(["nChw8c", "nChw8c"]);
    }
}

#[test]
fn gradients_of_filters_of_one_channel_agree_with_the_reference() {
    let each = Shape { groups: 21, channels: 21, outputs: 21, ..PLAIN };
    for shape in [
        Shape { ..each },
        Shape { strides: [2, 2], image: [9, 12], ..each },
        Shape { kernel: [5, 5], pads: [2; 4], ..each },
        Shape { dilations: [2, 2], image: [3, 4], pads: [2, 3, 2, 3], ..each },
    ] {
        shape.check(["nChw16c", "nChw16c"]);
        shape.check(["nChw8c", "nChw8c"]);
    }
}

#[test]
fn gradients_of_weights_of_a_plain_image_agree_with_the_reference() {
    let first = Shape { channels: 3, ..PLAIN };
    for shape in [
        Shape { ..first },
        Shape { kernel: [7, 7], strides: [2, 2], pads: [3; 4], image: [20, 31], outputs: 40, ..first },
        Shape { kernel: [2, 5], image: [3, 2], pads: [1, 4, 0, 3], ..first },
    ] {
        shape.check(["plain", "nChw16c"]);
        shape.check(["plain", "nChw8c"]);
    }
}

#[test]
fn transposed_convolutions_in_phases_agree_with_the_reference() {
    let mut random = Random::new(42);
    for (x, weights, attributes) in [
        ([2, 16, 6, 7], [16, 16, 3, 3], Attrs::new().ints("strides", &[2, 2]).ints("pads", &[1; 4])),
        ([1, 20, 5, 4], [20, 37, 1, 1], Attrs::new().ints("strides", &[2, 2])),
        (
            [2, 8, 4, 3],
            [8, 33, 4, 5],
            Attrs::new().ints("strides", &[3, 2]).ints("output-padding", &[2, 1]).ints("pads", &[0, 3, 1, 2]),
        ),
        ([1, 16, 9, 30], [16, 16, 3, 3], Attrs::new()),
        ([1, 5, 2, 2], [5, 3, 1, 2], Attrs::new().ints("strides", &[4, 5]).ints("output-padding", &[3, 4])),
    ] {
        let (x, w, b) = (random.f32(x), random.f32(weights), random.f32([weights[1]]));
        let op = "native.conv-transpose-direct";
        let attributes = ops().get(op).unwrap().complete(attributes);
        for (images, filters) in [("nChw16c", "BAcd16a16b"), ("nChw8c", "BAcd8a8b")] {
            verify(op, &attributes, &[&packed(&x, images), &packed(&w, filters), &b], 1e-4);
        }
    }
}

#[test]
fn transposed_convolutions_of_one_filter_a_channel_agree_with_the_reference() {
    let mut random = Random::new(46);
    for (x, kernel, attributes) in [
        ([2, 20, 6, 7], [3, 3], Attrs::new().ints("strides", &[2, 2]).ints("pads", &[1; 4])),
        ([1, 16, 5, 4], [5, 2], Attrs::new().ints("dilations", &[2, 3]).ints("pads", &[0, 1, 2, 0])),
        ([1, 3, 2, 3], [1, 2], Attrs::new().ints("strides", &[4, 5]).ints("output-padding", &[3, 4])),
    ] {
        let weights = random.f32([x[1], 1, kernel[0], kernel[1]]);
        let (x, b, groups) = (random.f32(x), random.f32([x[1]]), i64::try_from(x[1]).unwrap());
        let op = "native.conv-transpose-depthwise";
        let attributes = ops().get(op).unwrap().complete(attributes.int("groups", groups));
        for (images, filters) in [("nChw16c", "Oihw16o"), ("nChw8c", "Oihw8o")] {
            verify(op, &attributes, &[&packed(&x, images), &packed(&weights, filters), &b], 1e-4);
        }
    }
}

#[test]
fn turned_filters_agree_with_the_reference() {
    let mut random = Random::new(43);
    for (shape, groups) in [([6, 5, 3, 2], 1), ([6, 5, 3, 2], 3), ([4, 1, 5, 5], 4), ([32, 48, 1, 1], 1)] {
        let attributes =
            ops().get("native.turn-filters").unwrap().complete(Attrs::new().int("groups", groups));
        verify("native.turn-filters", &attributes, &[&random.f32(shape)], 0.0);
    }
}

#[test]
fn sums_of_channels_agree_with_the_reference() {
    let mut random = Random::new(44);
    for shape in [[3, 20, 5, 7], [1, 16, 1, 3], [2, 3, 64, 65]] {
        let x = random.f32(shape);
        let attributes = Attrs::new().ints("axes", &[0, 2, 3]).int("keepdims", 0);
        verify(
            "native.reduce-sum",
            &ops().get("native.reduce-sum").unwrap().complete(attributes.clone()),
            &[&x],
            1e-4,
        );
        for layout in ["nChw16c", "nChw8c"] {
            let attributes = ops().get("native.channel-sums").unwrap().complete(attributes.clone());
            verify("native.channel-sums", &attributes, &[&packed(&x, layout)], 1e-4);
        }
    }
}

#[test]
fn positions_of_maxima_agree_with_the_reference() {
    let mut random = Random::new(45);
    for (image, kernel, strides, dilations, pads) in [
        ([9, 40], [3, 3], [2, 2], [1, 1], [1, 1, 1, 1]),
        ([6, 17], [1, 5], [1, 3], [1, 2], [0, 4, 0, 1]),
        // The columns of the first window are to the left and to the right of the image.
        ([3, 2], [1, 2], [1, 1], [1, 3], [0, 1, 0, 1]),
    ] {
        for column_major in [0, 1] {
            let x = random.f32([2, 3, image[0], image[1]]);
            let attributes = Attrs::new()
                .ints("kernel", &kernel)
                .ints("strides", &strides)
                .ints("dilations", &dilations)
                .ints("pads", &pads)
                .int("column-major", column_major);
            let op = "native.max-pool-index";
            verify(op, &ops().get(op).unwrap().complete(attributes), &[&x], 0.0);
        }
    }
}

#[test]
fn gradients_of_maxima_agree_with_the_reference() {
    let mut random = Random::new(47);
    for (image, kernel, strides, dilations, pads) in [
        // Windows side by side, with rows and columns of none at the end.
        ([9, 7], [2, 2], [2, 2], [1, 1], [0; 4]),
        // Windows apart, in padding, and with gaps.
        ([11, 12], [2, 3], [4, 3], [1, 1], [1, 0, 0, 2]),
        ([10, 13], [2, 2], [3, 4], [2, 3], [0, 1, 1, 0]),
        // Windows that share elements.
        ([9, 12], [3, 3], [2, 2], [1, 1], [1, 1, 1, 1]),
        ([6, 8], [3, 2], [1, 1], [1, 2], [2, 0, 1, 1]),
        // The elements of the first window are to the left and to the right of the image, so it has none.
        ([3, 2], [1, 2], [1, 1], [1, 3], [0, 1, 0, 1]),
    ] {
        let attributes = Attrs::new()
            .ints("kernel", &kernel)
            .ints("strides", &strides)
            .ints("dilations", &dilations)
            .ints("pads", &pads);
        let size = |at: usize| {
            let number = |value: i64| usize::try_from(value).unwrap();
            let reach = number((kernel[at] - 1) * dilations[at] + 1);
            (image[at] + number(pads[at] + pads[at + 2]) - reach) / number(strides[at]) + 1
        };
        // Few different numbers, so that many windows have several largest elements.
        let x = random.f32([2, 21, image[0], image[1]]);
        let coarse: Vec<f32> = x.to_f64().iter().map(|value| (2.0 * value).round() as f32).collect();
        let d = random.f32([2, 21, size(0), size(1)]);
        let op = "native.max-pool-gradient";
        let attributes = ops().get(op).unwrap().complete(attributes);
        for x in [&x, &Tensor::from_elements(x.ty().shape.clone(), &coarse)] {
            for layout in ["plain", "nhwc", "nChw16c", "nChw8c"] {
                verify(op, &attributes, &[&packed(x, layout), &packed(&d, layout)], 1e-6);
            }
        }
    }
}

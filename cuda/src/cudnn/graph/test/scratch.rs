//! Holds what a plan reserves without a device against what engines of the library need for described devices.

use crate::cudnn::graph::max_scratch;
use ovolo::attr::Attrs;
use ovolo::op::Call;
use ovolo::tensor::{DType, Device, TensorType};

/// A convolution, and the bytes of scratch memory that the most demanding engine needs that rules can choose.
struct Needed {
    dtype: DType,
    image: [usize; 4],
    weights: [usize; 4],
    /// Along both axes.
    pads: [i64; 2],
    stride: i64,
    bytes: usize,
}

const fn of(
    dtype: DType,
    image: [usize; 4],
    weights: [usize; 4],
    pads: [i64; 2],
    stride: i64,
    bytes: usize,
) -> Needed {
    Needed { dtype, image, weights, pads, stride, bytes }
}

/// The most demanding convolutions of the survey of each kind: whole windows, one filter for each channel, and lines.
/// The library's versions are 9.19 and 9.28, and the devices H100, A100 and RTX 4090.
const NEEDED: &[Needed] = &[
    of(DType::F16, [8, 512, 28, 28], [512, 512, 3, 3], [1, 1], 1, 89_921_823),
    of(DType::F16, [8, 256, 56, 56], [256, 256, 3, 3], [1, 1], 1, 103_946_543),
    of(DType::F16, [8, 256, 28, 28], [512, 256, 3, 3], [1, 1], 1, 65_538_559),
    of(DType::F16, [8, 96, 112, 112], [96, 1, 3, 3], [1, 1], 2, 96_366_352),
    of(DType::F16, [8, 240, 28, 28], [240, 1, 5, 5], [2, 2], 1, 48_556_947),
    of(DType::F16, [8, 672, 14, 14], [672, 1, 5, 5], [2, 2], 1, 34_804_371),
    of(DType::F16, [8, 160, 17, 17], [160, 160, 1, 7], [0, 3], 1, 21_762_567),
    of(DType::F32, [1, 512, 28, 28], [512, 512, 3, 3], [1, 1], 1, 38_864_912),
    of(DType::F32, [8, 512, 28, 28], [512, 512, 3, 3], [1, 1], 1, 61_343_760),
    of(DType::F32, [1, 448, 8, 8], [384, 448, 3, 3], [1, 1], 1, 23_610_896),
    of(DType::F32, [1, 96, 112, 112], [96, 1, 3, 3], [1, 1], 2, 24_141_459),
];

#[test]
fn a_plan_without_a_device_reserves_what_engines_need() {
    let def = crate::fixture::ops().get("cudnn.conv-graph").expect("the backend has the op");
    let mut wrong = Vec::new();
    for Needed { dtype, image, weights, pads: [rows, columns], stride, bytes } in NEEDED {
        let attrs = def.complete(
            Attrs::new()
                .ints("pads", &[*rows, *columns, *rows, *columns])
                .ints("strides", &[*stride; 2])
                .int("groups", (image[1] / weights[1]) as i64),
        );
        let types = [&image[..], &weights[..], &weights[..1]].map(|shape| TensorType {
            device: Device::Accelerator(crate::FAMILY, 0),
            ..TensorType::plain(*dtype, shape)
        });
        let types: Vec<&TensorType> = types.iter().collect();
        let output = def.result(&attrs, &types).expect("the convolution is valid");
        let call = Call { op: def, attrs: &attrs, inputs: &types, output: &output, threads: 1 };
        let reserved = max_scratch(&call);
        if reserved < *bytes {
            wrong.push(format!("{} by {}: {reserved} bytes, not {bytes}", types[0], types[1]));
        }
    }
    assert!(wrong.is_empty(), "too little is reserved:\n{}", wrong.join("\n"));
}

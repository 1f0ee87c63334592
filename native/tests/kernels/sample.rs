//! Tests of ops that read images between their pixels against the reference evaluations.

use crate::check::{Random, verify};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Tensor};

const TOLERANCE: f64 = 2e-5;

fn text(text: &str) -> Attr {
    Attr::Str(text.into())
}

/// Numbers that no coordinate should be.
const ODD: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30, 1.0, -1.0];

/// Replaces some coordinates by odd ones.
fn spoil(tensor: &Tensor, step: usize) -> Tensor {
    with(tensor, step, &ODD)
}

/// Replaces some elements by infinities and NaN.
fn special(tensor: &Tensor, step: usize) -> Tensor {
    with(tensor, step, &ODD[..3])
}

fn with(tensor: &Tensor, step: usize, odd: &[f64]) -> Tensor {
    let mut values = tensor.to_f64();
    values.iter_mut().step_by(step).zip(odd.iter().cycle()).for_each(|(value, odd)| *value = *odd);
    Tensor::from_f64(tensor.ty().dtype, tensor.ty().shape.clone(), &values)
}

fn grid(mode: &str, padding: &str, corners: i64) -> Attrs {
    Attrs::new().with("mode", text(mode)).with("padding", text(padding)).int("align-corners", corners)
}

#[test]
fn points_of_a_grid_agree_with_the_reference() {
    let mut random = Random::new(61);
    for (x, points) in [
        (vec![2, 3, 5, 7], vec![2, 4, 9, 2]),
        (vec![1, 9, 20, 31], vec![1, 40, 33, 2]),
        (vec![2, 2, 6], vec![2, 70, 1]),
        (vec![1, 2, 3, 4, 5], vec![1, 6, 2, 7, 3]),
        (vec![1, 2, 1, 1], vec![1, 3, 3, 2]),
        (vec![1, 2, 4, 4], vec![1, 0, 3, 2]),
        (vec![1, 0, 4, 4], vec![1, 2, 3, 2]),
        (vec![1, 2, 0, 4], vec![1, 2, 3, 2]),
    ] {
        for mode in ["linear", "nearest", "cubic"] {
            for padding in ["zeros", "border", "reflection"] {
                // An image without pixels has no border.
                if padding != "zeros" && x[2..].contains(&0) {
                    continue;
                }
                for corners in [0, 1] {
                    let attributes = grid(mode, padding, corners);
                    for dtype in [DType::F32, DType::F64] {
                        let image = random.tensor(dtype, x.clone());
                        let places = random.tensor(dtype, points.clone());
                        for places in [&places, &spoil(&places, 5)] {
                            let contract =
                                verify("native.grid-sample", &attributes, &[&image, places], TOLERANCE);
                            assert_eq!(contract.implementation, "points");
                        }
                    }
                }
            }
        }
    }
    let (image, places) = (random.tensor(DType::F64, [1, 2, 6, 5]), random.f32([1, 8, 9, 2]));
    verify("native.grid-sample", &grid("linear", "zeros", 0), &[&image, &places], 1e-12);
    let (image, places) = (random.tensor(DType::F16, [1, 2, 6, 5]), random.tensor(DType::F16, [1, 8, 9, 2]));
    let contract = verify("native.grid-sample", &grid("linear", "zeros", 0), &[&image, &places], 2e-3);
    assert_eq!(contract.implementation, "widened points");
}

#[test]
fn a_pixel_without_weight_does_not_count_even_if_it_is_infinite() {
    let image = Tensor::from_elements([1, 1, 2, 3], &[1.0, f32::INFINITY, f32::NAN, 4.0, 5.0, f32::INFINITY]);
    let exact = [-1.0, -1.0, -1.0, 1.0, 0.0, 1.0, 1.0, 1.0_f32];
    let places = Tensor::from_elements([1, 2, 2, 2], &exact);
    for mode in ["linear", "nearest", "cubic"] {
        verify("native.grid-sample", &grid(mode, "zeros", 1), &[&image, &places], TOLERANCE);
    }
}

#[test]
fn cells_of_regions_agree_with_the_reference() {
    let mut random = Random::new(67);
    for (x, cells) in
        [([2, 3, 11, 9], [2, 3]), ([1, 70, 6, 20], [4, 1]), ([3, 1, 1, 1], [2, 2]), ([2, 2, 5, 5], [0, 3])]
    {
        for (samples, half, mode, scale) in [
            (2, 1, "avg", 1.0),
            (0, 0, "avg", 0.5),
            (3, 0, "max", 2.0),
            (0, 1, "max", 1.0),
            (0, 1, "avg", 3.0),
        ] {
            let attributes = Attrs::new()
                .ints("output-size", &cells)
                .int("samples", samples)
                .float("scale", scale)
                .int("half-pixel", half)
                .with("mode", text(mode));
            for dtype in [DType::F32, DType::F64] {
                let image = random.tensor(dtype, x);
                let mut corners: Vec<f64> = Vec::new();
                for _ in 0..6 {
                    let [left, top] = [0, 1].map(|_| random.below(800) as f64 / 100.0 - 2.0);
                    let [wide, high] = [0, 1].map(|_| random.below(900) as f64 / 100.0 - 1.0);
                    corners.extend([left, top, left + wide, top + high]);
                }
                let regions = Tensor::from_f64(dtype, [6, 4], &corners);
                let images = Tensor::from_elements([6], &[0_i64, 1, 0, -1, 9, 2]);
                let contract =
                    verify("native.roi-align", &attributes, &[&image, &regions, &images], TOLERANCE);
                assert_eq!(contract.implementation, "regions");
                // Infinite regions have the most samples that there may be, so the size of the sample is given.
                if samples > 0 {
                    let odd = spoil(&regions, 5);
                    verify("native.roi-align", &attributes, &[&image, &odd, &images], TOLERANCE);
                    verify(
                        "native.roi-align",
                        &attributes,
                        &[&special(&image, 9), &regions, &images],
                        TOLERANCE,
                    );
                }
            }
        }
    }
    let none = Tensor::from_elements::<i64>([0], &[]);
    let attributes = Attrs::new()
        .ints("output-size", &[2, 2])
        .int("samples", 2)
        .float("scale", 1.0)
        .int("half-pixel", 1)
        .with("mode", text("avg"));
    verify("native.roi-align", &attributes, &[&random.f32([1, 2, 4, 4]), &random.f32([0, 4]), &none], 0.0);
}

/// Attributes of `deform-conv`, with the sizes of operands.
#[derive(Clone, Copy)]
struct Deform {
    image: [usize; 4],
    filters: usize,
    window: [usize; 2],
    groups: usize,
    offset_groups: usize,
    strides: [i64; 2],
    pads: [i64; 4],
    dilations: [i64; 2],
}

#[test]
fn deformable_convolutions_agree_with_the_reference() {
    let mut random = Random::new(71);
    let plain = Deform {
        image: [2, 4, 9, 8],
        filters: 6,
        window: [3, 3],
        groups: 1,
        offset_groups: 1,
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
    };
    for one in [
        Deform { pads: [1, 2, 1, 0], dilations: [2, 1], ..plain },
        Deform { strides: [2, 3], window: [2, 3], groups: 2, pads: [1; 4], ..plain },
        Deform { offset_groups: 2, filters: 17, pads: [1; 4], ..plain },
        Deform { image: [1, 40, 12, 11], filters: 33, groups: 1, offset_groups: 4, ..plain },
        Deform { image: [1, 6, 7, 7], filters: 6, groups: 6, offset_groups: 3, ..plain },
        Deform { image: [1, 6, 7, 7], groups: 3, window: [1, 1], ..plain },
        Deform { image: [0, 4, 9, 8], ..plain },
        Deform { filters: 0, ..plain },
        plain,
    ] {
        let attributes = Attrs::new()
            .ints("strides", &one.strides)
            .ints("pads", &one.pads)
            .ints("dilations", &one.dilations)
            .int("groups", one.groups as i64)
            .int("offset-groups", one.offset_groups as i64);
        let size = |axis: usize| {
            let [before, after] = [one.pads[axis], one.pads[2 + axis]].map(|pad| pad as usize);
            let reach = (one.window[axis] - 1) * one.dilations[axis] as usize + 1;
            (one.image[2 + axis] + before + after - reach) / one.strides[axis] as usize + 1
        };
        let (maps, space) = (one.offset_groups * one.window[0] * one.window[1], [size(0), size(1)]);
        let [batch, channels, ..] = one.image;
        let mut operands = |dtype: DType| {
            let weights = [one.filters, channels / one.groups, one.window[0], one.window[1]];
            [
                random.tensor(dtype, one.image),
                random.tensor(dtype, weights),
                random.tensor(dtype, [batch, 2 * maps, space[0], space[1]]),
                random.tensor(dtype, [batch, maps, space[0], space[1]]),
            ]
        };
        let [x, w, offsets, mask] = operands(DType::F32);
        let contract = verify("native.deform-conv", &attributes, &[&x, &w, &offsets, &mask], TOLERANCE);
        assert_eq!(contract.implementation, "columns");
        let odd = [special(&x, 53), spoil(&offsets, 37), special(&mask, 41)];
        verify("native.deform-conv", &attributes, &[&x, &w, &odd[1], &mask], TOLERANCE);
        verify("native.deform-conv", &attributes, &[&odd[0], &w, &odd[1], &odd[2]], TOLERANCE);
        let [x, w, offsets, mask] = operands(DType::F16);
        let contract = verify("native.deform-conv", &attributes, &[&x, &w, &offsets, &mask], 2e-2);
        assert_eq!(contract.implementation, "widened columns");
    }
}

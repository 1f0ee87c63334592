//! Tests of ops that go along an axis in order, and of those that choose by order, against the reference evaluations.

use crate::check::{Random, verify};
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, Tensor};

fn attrs() -> Attrs {
    Attrs::new()
}

/// Asserts that a kernel of this name, and not the reference evaluation, took the call.
fn by(implementation: &str, op: &'static str, attributes: &Attrs, inputs: &[&Tensor], tolerance: f64) {
    let contract = verify(op, attributes, inputs, tolerance);
    assert_eq!(contract.implementation, implementation, "{op}");
}

#[test]
fn the_best_elements_are_those_of_the_reference() {
    let mut random = Random::new(41);
    let types = [
        DType::F32,
        DType::F64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
    ];
    let mut top = |dtype: DType, implementation: &str| {
        for (shape, axis) in [
            (vec![5], 0),
            (vec![3, 1000], 1),
            (vec![300, 70], 0),
            (vec![2, 130, 3], 1),
            (vec![4, 0, 3], 0),
            (vec![40, 600], 1),
        ] {
            let size = shape[axis];
            let x = random.tensor(dtype, shape);
            for k in [0, 1, 2, 60, 200, size] {
                for largest in [0, 1] {
                    let attributes =
                        attrs().int("axis", axis as i64).int("k", k.min(size) as i64).int("largest", largest);
                    by(implementation, "native.top-k-index", &attributes, &[&x], 0.0);
                }
            }
        }
    };
    types.into_iter().for_each(|dtype| top(dtype, "selection"));
    top(DType::F16, "widened selection");
}

#[test]
fn nan_is_the_largest_element_and_zeros_are_equal() {
    let odd =
        [f32::NAN, 0.0, -0.0, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY, 1e-40, -1e-40, 3.0, -0.0, 0.0];
    let values: Vec<f32> = (0..1500).map(|at| odd[at * 7 % odd.len()]).collect();
    let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    let dims = [3, 500];
    for x in [Tensor::from_elements(dims, &values), Tensor::from_elements(dims, &wide)] {
        for (k, largest) in [1, 10, 100, 300, 500].into_iter().flat_map(|k| [(k, 0), (k, 1)]) {
            let attributes = attrs().int("axis", 1).int("k", k).int("largest", largest);
            by("selection", "native.top-k-index", &attributes, &[&x], 0.0);
        }
    }
}

#[test]
fn lines_from_bad_to_good_and_of_equal_elements_are_selected_in_order() {
    let count = 5000_i32;
    let rising: Vec<f32> = (0..count).map(|at| at as f32).collect();
    for values in [rising.clone(), rising.into_iter().rev().collect(), vec![2.5; count as usize]] {
        let x = Tensor::from_elements([count as usize], &values);
        for (k, largest) in [(1, 0), (7, 1), (300, 0), (300, 1), (4999, 1)] {
            let attributes = attrs().int("axis", 0).int("k", k).int("largest", largest);
            by("selection", "native.top-k-index", &attributes, &[&x], 0.0);
        }
    }
}

#[test]
fn running_sums_and_products_agree_with_the_reference() {
    let mut random = Random::new(43);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::F16, DType::U8] {
        let implementation = match dtype {
            DType::F16 => "widened lines",
            DType::U8 => "reference",
            _ => "lines",
        };
        for (shape, axis) in [
            (vec![9], 0),
            (vec![30, 100], 1),
            (vec![3, 900, 40], 1),
            (vec![50, 75], 0),
            (vec![7, 20, 5], 1),
            (vec![3, 0], 1),
            (vec![0, 3], 1),
        ] {
            let x = random.tensor(dtype, shape);
            for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let attributes =
                    attrs().int("axis", axis).int("exclusive", exclusive).int("reverse", reverse);
                by(implementation, "native.cum-sum", &attributes, &[&x], 1e-6);
                by(implementation, "native.cum-prod", &attributes, &[&x], 1e-6);
            }
        }
    }
    let odd = [1.0, f32::INFINITY, 2.0, f32::NEG_INFINITY, 3.0, f32::NAN, 0.0, 3e38, 3e38];
    let x = Tensor::from_elements([9], &odd);
    for op in ["native.cum-sum", "native.cum-prod"] {
        for reverse in [0, 1] {
            verify(op, &attrs().int("axis", 0).int("reverse", reverse).int("exclusive", 0), &[&x], 0.0);
        }
    }
}

#[test]
fn transforms_agree_with_the_reference() {
    let mut random = Random::new(47);
    for (shape, axis) in [
        (vec![1, 2], 0),
        (vec![3, 16, 2], 1),
        (vec![2, 97, 2], 1),
        (vec![15, 7, 2], 0),
        (vec![2, 30, 9, 2], 1),
        (vec![40, 400, 2], 1),
        (vec![2, 1009, 2], 1),
        (vec![3, 0, 2], 1),
        (vec![0, 5, 2], 1),
        (vec![2, 360, 1, 2], 1),
    ] {
        for inverse in [0, 1] {
            let attributes = attrs().int("axis", axis).int("inverse", inverse);
            by("fast", "native.dft", &attributes, &[&random.f32(shape.clone())], 2e-4);
            by("fast", "native.dft", &attributes, &[&random.tensor(DType::F64, shape.clone())], 1e-11);
        }
    }
    let x = random.tensor(DType::F16, [3, 12, 2]);
    by("widened fast", "native.dft", &attrs().int("axis", 1).int("inverse", 0), &[&x], 2e-2);
    let mut x = random.f32([2, 24, 2]);
    // If only one part of a number is NaN, it depends on products with zero which parts of the result are.
    x.elements_mut::<f32>()[4..6].fill(f32::NAN);
    by("fast", "native.dft", &attrs().int("axis", 1).int("inverse", 0), &[&x], 2e-4);
}

#[test]
fn boxes_that_are_kept_are_those_of_the_reference() {
    let mut random = Random::new(53);
    for (images, classes, number) in [(1, 1, 1), (2, 3, 50), (1, 4, 700), (2, 0, 5), (1, 2, 0)] {
        let mut boxes = random.f32([images, number, 4]);
        let mut scores = random.f32([images, classes, number]);
        if number == 50 {
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
            scores.elements_mut::<f32>().iter_mut().step_by(7).zip(odd).for_each(|(score, odd)| *score = odd);
            boxes.elements_mut::<f32>().iter_mut().step_by(31).zip(odd).for_each(|(at, odd)| *at = odd);
        }
        for (most, overlap, least) in
            [(3, 0.5, 0.0), (0, 0.5, 0.0), (1000, 0.1, -10.0), (1000, 0.9, 0.5), (20, 0.0, -0.5)]
        {
            for center in [0, 1] {
                let attributes = attrs().int("most", most).int("center", center);
                let attributes = attributes.float("overlap", overlap).float("least", least);
                let op = "native.non-max-suppression";
                by("blocks", op, &attributes, &[&boxes, &scores], 0.0);
            }
        }
    }
    let equal = Tensor::from_elements([1, 1, 40], &[0.5_f32; 40]);
    let attributes = attrs().int("most", 9).int("center", 0).float("overlap", 0.3).float("least", 0.0);
    verify("native.non-max-suppression", &attributes, &[&random.f32([1, 40, 4]), &equal], 0.0);
}

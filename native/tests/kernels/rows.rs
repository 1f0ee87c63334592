//! Tests of normalisations from levels to levels: they give what the kernels of floats give between `dequantize` and
//! `quantize`, to the last level, and depart from the definition by a level at most.

use crate::check::{Random, run, verify};
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, Tensor, TensorType};

/// The types of operand 0, and those of results.
const SOURCES: [DType; 3] = [DType::F32, DType::U8, DType::I8];
const TARGETS: [DType; 2] = [DType::U8, DType::I8];

/// A scale and a zero point of levels of a type.
fn ends(scale: f32, dtype: DType, zero: f64) -> [Tensor; 2] {
    [Tensor::scalar(scale), Tensor::from_f64(dtype, vec![], &[zero])]
}

/// Returns levels of all 256 values, or floats between -2 and 2.
fn numbers(random: &mut Random, dtype: DType, shape: &[usize]) -> Tensor {
    let least = match dtype {
        DType::U8 => 0.0,
        DType::I8 => -128.0,
        _ => return random.tensor(dtype, shape.to_vec()),
    };
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| random.below(256) as f64 + least).collect();
    Tensor::from_f64(dtype, shape.to_vec(), &values)
}

/// Checks a normalisation of `x`, whose name is that of the op of floats, against the kernels of its parts and against its
/// definition. Returns the name of its implementation.
fn check(
    norm: &'static str,
    fused: &'static str,
    attrs: &Attrs,
    x: &Tensor,
    own: &[&Tensor],
    [s, z]: &[Tensor; 2],
    source: &[Tensor; 2],
) -> String {
    let shape = x.ty().shape.clone();
    let floats = TensorType::plain(DType::F32, shape.clone());
    let to = TensorType::plain(z.ty().dtype, shape.clone());
    let is_levels = x.ty().dtype != DType::F32;
    let numbers = match is_levels {
        true => run("native.dequantize", &Attrs::new(), &[x, &source[0], &source[1]], &floats, 1, None).1,
        false => x.clone(),
    };
    let operands: Vec<&Tensor> = [&numbers].into_iter().chain(own.iter().copied()).collect();
    let normal = run(norm, attrs, &operands, &floats, 1, None).1;
    let want = run("native.quantize", &Attrs::new(), &[&normal, s, z], &to, 1, None).1;

    let mut operands: Vec<&Tensor> = [x, s, z].into_iter().chain(own.iter().copied()).collect();
    if is_levels {
        operands.extend(source);
    }
    let what = format!("{fused}{attrs} from {} to {} with {:?}", x.ty(), to, s.to_f64());
    let (contract, _) = run(fused, attrs, &operands, &to, 1, None);
    assert_eq!(contract.in_place, if is_levels { vec![0] } else { vec![] }, "{what}");
    let places: Vec<Option<usize>> =
        [None].into_iter().chain(contract.in_place.iter().copied().map(Some)).collect();
    for threads in [1, 2] {
        for place in &places {
            let got = run(fused, attrs, &operands, &to, threads, *place).1;
            assert!(got.bytes() == want.bytes(), "{what}, {threads} threads, in place of {place:?}");
        }
    }
    let op = crate::fixture::ops().get(fused).unwrap();
    let defined = op.evaluate(attrs, &operands, &to).to_f64();
    let departures: Vec<f64> =
        want.to_f64().iter().zip(&defined).map(|(got, want)| (got - want).abs()).collect();
    assert!(departures.iter().all(|levels| *levels <= 1.0), "{what}");
    let some = departures.iter().filter(|levels| **levels > 0.0).count();
    assert!(some <= 1 + departures.len() / 100, "{what}: {some} of {} depart", departures.len());
    contract.implementation
}

#[test]
fn shares_are_levels_of_the_softmax_of_floats() {
    let mut random = Random::new(47);
    // Rows that are shorter than a vector, that are some vectors, and that end within one; columns; many rows.
    for (shape, axis, implementation) in [
        (vec![4, 7], 1, "rows"),
        (vec![3, 16], 1, "rows"),
        (vec![2, 3, 40], 2, "rows"),
        (vec![5, 77], 1, "rows"),
        (vec![2, 12, 33, 128], 3, "rows"),
        (vec![3, 4, 50, 197], 3, "rows"),
        (vec![1], 0, "rows"),
        (vec![6, 5], 0, "columns"),
        (vec![3, 9, 20], 1, "columns"),
        (vec![2, 40, 5, 37], 1, "columns"),
    ] {
        for source in SOURCES {
            let x = numbers(&mut random, source, &shape);
            let attrs = Attrs::new().int("axis", axis);
            for to in TARGETS {
                let least = if to == DType::U8 { 0.0 } else { -128.0 };
                // The levels of all shares, levels of which most are the last one, quotients in the middle between two
                // levels, and a scale without an inverse.
                for (scale, zero) in
                    [(1.0 / 256.0, least), (1e-4, least + 9.0), (0.125, least + 100.0), (1e-39, least)]
                {
                    let (target, own) = (ends(scale, to, zero), ends(0.043, source, 3.0));
                    let got =
                        check("native.softmax", "native.softmax-requantize", &attrs, &x, &[], &target, &own);
                    assert_eq!(got, implementation);
                }
            }
        }
    }
}

#[test]
fn levels_of_layer_norms_are_those_of_floats() {
    let mut random = Random::new(53);
    for (shape, axis) in [
        (vec![4, 7], 1),
        (vec![2, 60, 768], 2),
        (vec![3, 5, 6, 7], 2),
        (vec![2, 3, 33], 0),
        (vec![9, 100], 1),
    ] {
        let inner = shape[axis..].to_vec();
        let (g, b) = (random.f32(inner.clone()), random.f32(inner));
        let attrs = Attrs::new().int("axis", axis as i64).float("epsilon", 1e-5);
        for source in SOURCES {
            let x = numbers(&mut random, source, &shape);
            for to in TARGETS {
                let middle = if to == DType::U8 { 120.0 } else { -8.0 };
                // Levels within the bounds, levels of which most are bounds, and numbers that fit into no integer.
                for scale in [0.037, 0.001, 1e-30] {
                    let (target, own) = (ends(scale, to, middle), ends(0.043, source, 3.0));
                    let (norm, fused) = ("native.layer-norm", "native.layer-norm-requantize");
                    let got = check(norm, fused, &attrs, &x, &[&g, &b], &target, &own);
                    assert_eq!(got, "rows");
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_has_the_lowest_level_of_a_row() {
    let mut values = vec![0.5; 3 * 70];
    (values[5], values[75], values[76]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let x = Tensor::from_elements([3, 70], &values);
    let ones = Tensor::from_elements([70], &[1.0_f32; 70]);
    for to in TARGETS {
        let [s, z] = ends(0.25, to, 7.0);
        let attrs = Attrs::new().int("axis", 1);
        verify("native.softmax-requantize", &attrs, &[&x, &s, &z], 0.0);
        let attrs = attrs.float("epsilon", 1e-5);
        verify("native.layer-norm-requantize", &attrs, &[&x, &s, &z, &ones, &ones], 0.0);
    }
}

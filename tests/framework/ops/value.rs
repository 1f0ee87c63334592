//! Values of ops, computed by hand.

use super::{eval, f32_type, f32s, i64s, infer, layout, refusal, step};
use ovolo::attr::{Attr, Attrs};
use ovolo::scalar;
use ovolo::tensor::{DType, Tensor};

#[test]
fn convolution_by_hand() {
    let x = f32s([1, 1, 3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
    let w = f32s([1, 1, 2, 2], &[1., 0., 0., -1.]);
    let conv = |attrs: Attrs| eval("conv", attrs, &[x.clone(), w.clone(), f32s([1], &[0.5])]);
    assert_eq!(conv(Attrs::new()).to_f64(), [-3.5, -3.5, -3.5, -3.5]);
    let padded = Attrs::new().ints("pads", &[1, 0, 0, 1]).ints("strides", &[2, 1]);
    assert_eq!(conv(padded).to_f64(), [-1.5, -2.5, 0.5, -3.5, -3.5, 6.5]);
    assert_eq!(conv(Attrs::new().ints("dilations", &[2, 2])).to_f64(), [-7.5]);
    // The second convolution pads the result of the first with zeros, not with the step's value of zero,
    // which is 0.5.
    let inner = Attr::Post(vec![step("sigmoid", &[])]);
    let pair = eval(
        "pointwise-depthwise",
        Attrs::new().with("inner", inner).ints("pads", &[1, 0, 0, 0]),
        &[
            f32s([1, 1, 1, 1], &[2.]),
            f32s([1, 1, 1, 1], &[3.]),
            f32s([1], &[-6.]),
            f32s([1, 1, 2, 1], &[100., 4.]),
            f32s([1], &[1.]),
        ],
    );
    assert_eq!(pair.to_f64(), [3.]);
    let grouped = eval(
        "conv",
        Attrs::new().int("groups", 2),
        &[
            f32s([1, 2, 1, 2], &[1., 2., 3., 4.]),
            f32s([4, 1, 1, 1], &[1., 10., 100., -1.]),
            f32s([4], &[0.; 4]),
        ],
    );
    assert_eq!(grouped.to_f64(), [1., 2., 10., 20., 300., 400., -3., -4.]);
}

#[test]
fn transposed_convolutions_by_hand() {
    let x = f32s([1, 1, 2, 2], &[1., 2., 3., 4.]);
    let w = f32s([1, 1, 2, 2], &[1., 10., 100., 1000.]);
    let run = |attrs: Attrs| eval("conv-transpose", attrs, &[x.clone(), w.clone(), f32s([1], &[0.5])]);
    let whole = [1.5, 12.5, 20.5, 103.5, 1234.5, 2040.5, 300.5, 3400.5, 4000.5];
    assert_eq!(run(Attrs::new()).to_f64(), whole);
    let cut = Attrs::new().ints("pads", &[1, 1, 0, 1]);
    assert_eq!(run(cut).to_f64(), [1234.5, 3400.5]);
    let apart = Attrs::new().ints("strides", &[1, 2]).ints("output-padding", &[0, 1]);
    let rows =
        [1.5, 10.5, 2.5, 20.5, 0.5, 103.5, 1030.5, 204.5, 2040.5, 0.5, 300.5, 3000.5, 400.5, 4000.5, 0.5];
    assert_eq!(run(apart).to_f64(), rows);
}

#[test]
fn pools_by_hand() {
    let x = f32s([1, 1, 3, 3], &[-1., -2., -3., -4., -5., -6., -7., -8., -9.]);
    let attrs = || Attrs::new().ints("kernel", &[2, 2]).ints("strides", &[2, 2]).ints("pads", &[1, 1, 0, 0]);
    assert_eq!(eval("max-pool", attrs(), std::slice::from_ref(&x)).to_f64(), [-1., -2., -4., -5.]);
    assert_eq!(eval("avg-pool", attrs(), std::slice::from_ref(&x)).to_f64(), [-1., -2.5, -5.5, -7.]);
    let counted = attrs().int("count-include-pad", 1);
    assert_eq!(eval("avg-pool", counted, std::slice::from_ref(&x)).to_f64(), [-0.25, -1.25, -2.75, -7.]);
    let ceil = Attrs::new().ints("kernel", &[2, 2]).ints("strides", &[2, 2]).ints("ceil-extra", &[1, 1]);
    assert_eq!(eval("avg-pool", ceil.int("count-include-pad", 1), &[x]).to_f64(), [-3., -4.5, -7.5, -9.]);
}

#[test]
fn products_by_hand_and_exact_in_integers() {
    let a = f32s([2, 1, 2], &[1., 2., 3., 4.]);
    let b = f32s([2, 2], &[1., 10., 100., 1000.]);
    assert_eq!(eval("matmul", Attrs::new(), &[a, b]).to_f64(), [201., 2010., 403., 4030.]);
    let big = (1 << 53) + 1;
    let exact = eval("matmul", Attrs::new(), &[i64s([1, 2], &[big, 1]), i64s([2, 1], &[1, 1])]);
    assert_eq!(exact.to_i64().unwrap(), [big + 1]);
    let equation = |text: &str| Attrs::new().with("equation", Attr::Str(text.into()));
    let (a, b) = (f32s([2, 2], &[1., 2., 3., 4.]), f32s([2, 2], &[1., 10., 100., 1000.]));
    assert_eq!(
        eval("einsum", equation("ab,bc->ca"), &[a.clone(), b.clone()]).to_f64(),
        [201., 403., 2010., 4030.]
    );
    assert_eq!(eval("einsum", equation("ab,ab->b"), &[a.clone(), b.clone()]).to_f64(), [301., 4020.]);
    assert_eq!(eval("einsum", equation("ab,cd,->a"), &[a, b, f32s([], &[2.])]).to_f64(), [6666., 15554.]);
    let exact = eval("einsum", equation("ab,b->a"), &[i64s([1, 2], &[big, 1]), i64s([2], &[1, 1])]);
    assert_eq!(exact.to_i64().unwrap(), [big + 1]);
}

#[test]
fn integers_do_not_pass_through_floats() {
    let big = (1_i64 << 53) + 1;
    let x = || i64s([3], &[big, -big, big - 2]);
    for (op, want) in
        [("abs", [big, big, big - 2]), ("relu", [big, 0, big - 2]), ("floor", [big, -big, big - 2])]
    {
        assert_eq!(eval(op, Attrs::new(), &[x()]).to_i64().unwrap(), want, "{op}");
    }
    let clipped = eval("clip", Attrs::new().float("min", -3.0).float("max", f64::INFINITY), &[x()]);
    assert_eq!(clipped.to_i64().unwrap(), [big, -3, big - 2]);
    let close = i64s([2], &[big - 1, big]);
    assert_eq!(eval("arg-max", Attrs::new().int("axis", 0), &[close]).to_i64().unwrap(), [1]);
    let sum = eval("reduce-sum", Attrs::new().ints("axes", &[0]), &[i64s([2], &[i64::MAX, 1])]);
    assert_eq!(sum.to_i64().unwrap(), [i64::MIN]);
    let quotient = eval("div", Attrs::new(), &[i64s([3], &[-7, 7, 1]), i64s([3], &[2, -2, 0])]);
    assert_eq!(quotient.to_i64().unwrap(), [-3, -3, 0]);
    let remainder = |fmod| {
        let attrs = Attrs::new().int("fmod", fmod);
        eval("mod", attrs, &[i64s([2], &[-7, 7]), i64s([2], &[3, -3])]).to_i64().unwrap()
    };
    assert_eq!((remainder(0), remainder(1)), (vec![2, -2], vec![-1, 1]));
}

#[test]
fn a_remainder_of_floats_has_the_sign_of_its_divisor() {
    let infinity = f32::INFINITY;
    let pairs = [
        (0.0, -2.0, -0.0),
        (-0.0, 2.0, 0.0),
        (-3.0, infinity, infinity),
        (3.0, infinity, 3.0),
        (1.0, -infinity, -infinity),
        (-5.5, 2.0, 0.5),
        (5.5, -2.0, -0.5),
    ];
    for (a, b, want) in pairs {
        let got = eval("mod", Attrs::new(), &[f32s([1], &[a]), f32s([1], &[b])]).to_f64()[0];
        #[allow(clippy::cast_possible_truncation)]
        let got = got as f32;
        assert_eq!(got.to_bits(), f32::to_bits(want), "{a} mod {b} is {got}");
    }
    for (a, b) in [(infinity, 2.0), (-infinity, 2.0), (1.0, 0.0), (f32::NAN, 2.0), (1.0, f32::NAN)] {
        assert!(eval("mod", Attrs::new(), &[f32s([1], &[a]), f32s([1], &[b])]).to_f64()[0].is_nan());
    }
}

#[test]
fn operands_broadcast() {
    let column = f32s([2, 1], &[10., 20.]);
    let row = f32s([3], &[1., 2., 3.]);
    assert_eq!(
        eval("add", Attrs::new(), &[column.clone(), row.clone()]).to_f64(),
        [11., 12., 13., 21., 22., 23.]
    );
    assert_eq!(eval("sub", Attrs::new(), &[f32s([0; 0], &[1.]), row]).to_f64(), [0., -1., -2.]);
    let wide = eval("expand", Attrs::new().ints("shape", &[2, 2, 3]), &[column]);
    assert_eq!(wide.to_f64(), [10., 10., 10., 20., 20., 20.].repeat(2));
    let middle = eval("mul", Attrs::new(), &[f32s([2, 1, 2], &[1., 2., 3., 4.]), f32s([2, 1], &[1., -1.])]);
    assert_eq!(middle.to_f64(), [1., 2., -1., -2., 3., 4., -3., -4.]);
    assert_eq!(eval("add", Attrs::new(), &[f32s([0, 2], &[]), f32s([1, 1], &[1.])]).ty(), &f32_type([0, 2]));
}

#[test]
fn chains_run_step_by_step() {
    let chain =
        Attr::Post(vec![step("add", &[]), step("clip", &[0.0, 6.0]), step("rdiv", &[]), step("rsub", &[])]);
    let attrs = Attrs::new().with("post", chain);
    let x = f32s([2, 2], &[-5., 1., 3., 30.]);
    let extras = [f32s([2], &[1., 2.]), f32s([2, 1], &[12., 24.]), f32s([0; 0], &[1.])];
    let [a, b, c] = extras;
    let result = eval("map", attrs, &[x, a, b, c]).to_f64();
    assert_eq!(result, [f64::NEG_INFINITY, -3., -5., -3.]);
    let attrs = || Attrs::new().with("post", Attr::Post(vec![step("add", &[])]));
    let wide = refusal("map", attrs(), &[f32_type([1, 2]), f32_type([3, 2])]);
    assert!(wide.contains("`add`") && wide.contains("f32[3,2]") && wide.contains("f32[1,2]"), "{wide}");
    let lane = f32_type([1, 1, 4, 4]).with_layout(layout("nChw16c"));
    let blocked = f32_type([1, 3, 4, 4]).with_layout(layout("nChw16c"));
    assert!(infer("map", attrs(), &[blocked.clone(), lane]).is_err(), "it would broadcast over padding");
    assert!(infer("map", attrs(), &[blocked.clone(), f32_type([1])]).is_ok());
    assert!(infer("map", attrs(), &[blocked, f32_type([3, 1, 1])]).is_err(), "plain, and not one element");
}

#[test]
fn ops_that_move_elements_by_hand() {
    let x = || i64s([2, 3], &[0, 1, 2, 3, 4, 5]);
    let ints = |op, attrs, operands: &[Tensor]| eval(op, attrs, operands).to_i64().unwrap();
    assert_eq!(ints("transpose", Attrs::new().ints("perm", &[1, 0]), &[x()]), [0, 3, 1, 4, 2, 5]);
    let back = Attrs::new().ints("starts", &[1, 2]).ints("sizes", &[2, 2]).ints("steps", &[-1, -2]);
    assert_eq!(ints("slice", back, &[x()]), [5, 3, 2, 0]);
    assert_eq!(ints("gather", Attrs::new().int("axis", 1), &[x(), i64s([2], &[-1, 0])]), [2, 0, 5, 3]);
    assert_eq!(
        ints("gather-elements", Attrs::new().int("axis", 0), &[x(), i64s([1, 3], &[1, 0, -1])]),
        [3, 1, 5]
    );
    assert_eq!(
        ints("concat", Attrs::new().int("axis", 1), &[x(), i64s([2, 1], &[8, 9])]),
        [0, 1, 2, 8, 3, 4, 5, 9]
    );
    let pads = Attrs::new().ints("pads", &[1, 0, 0, 2]);
    assert_eq!(ints("pad", pads, &[x(), i64s([0; 0], &[7])]), [7, 7, 7, 7, 7, 0, 1, 2, 7, 7, 3, 4, 5, 7, 7]);
    let whole = x();
    let same = eval("reshape", Attrs::new().ints("shape", &[3, 2]), std::slice::from_ref(&whole));
    assert_eq!(same.bytes().as_ptr(), whole.bytes().as_ptr(), "a reshape shares the bytes");
}

/// Transpositions go through tiles, whose edges sizes need not fill, and whose sides depend on the size of an element.
#[test]
fn transpositions_of_elements_of_every_size() {
    let shape = [3, 37, 5, 70];
    let count: i64 = shape.iter().product();
    let values: Vec<i128> = (0..count).map(|at| i128::from(at % 113)).collect();
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I64, DType::C128] {
        let x = Tensor::from_i128(dtype, shape.map(|size| size as usize), &values);
        for perm in [[0, 1, 3, 2], [3, 2, 1, 0], [0, 3, 1, 2], [3, 0, 2, 1], [1, 2, 3, 0]] {
            let got = eval("transpose", Attrs::new().ints("perm", &perm), std::slice::from_ref(&x));
            let sizes = perm.map(|axis| shape[axis as usize]);
            let value = |mut at: i64| {
                let mut index = [0; 4];
                for axis in (0..4).rev() {
                    index[perm[axis] as usize] = at % sizes[axis];
                    at /= sizes[axis];
                }
                values[index.iter().zip(shape).fold(0, |at, (i, size)| at * size + i) as usize]
            };
            let want: Vec<i128> = (0..count).map(value).collect();
            let want = Tensor::from_i128(dtype, sizes.map(|size| size as usize), &want);
            assert!(got.bytes() == want.bytes(), "{dtype:?} {perm:?}");
        }
    }
}

#[test]
fn normalisations_by_hand() {
    let near = |got: Vec<f64>, want: &[f64]| {
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} instead of {want:?}");
    };
    let x = f32s([2, 2], &[0., 2_f32.ln(), 1000., 1000.]);
    near(
        eval("softmax", Attrs::new().int("axis", 1), std::slice::from_ref(&x)).to_f64(),
        &[1. / 3., 2. / 3., 0.5, 0.5],
    );
    near(
        eval("log-softmax", Attrs::new().int("axis", 1), &[x]).to_f64(),
        &[-(3_f64.ln()), 2_f64.ln() - 3_f64.ln(), -(2_f64.ln()), -(2_f64.ln())],
    );
    let x = || f32s([1, 2, 2], &[1., 3., 5., 9.]);
    let pair = |a, b| f32s([2], &[a, b]);
    let exact = || Attrs::new().float("epsilon", 0.0);
    near(
        eval("layer-norm", exact().int("axis", 2), &[x(), pair(1., 2.), pair(0., 1.)]).to_f64(),
        &[-1., 3., -1., 3.],
    );
    let root = f32s([2, 2], &[1., 7., 3., 3.]);
    near(eval("rms-norm", exact().int("axis", 1), &[root, pair(1., 2.)]).to_f64(), &[0.2, 2.8, 1., 2.]);
    near(eval("instance-norm", exact(), &[x(), pair(1., 2.), pair(0., 1.)]).to_f64(), &[-1., 1., -1., 3.]);
    let batch = [x(), pair(2., 1.), pair(1., 0.), pair(1., 5.), pair(4., 16.)];
    near(eval("batch-norm", exact(), &batch).to_f64(), &[1., 3., 0., 1.]);
    let lrn = Attrs::new().int("size", 2).float("alpha", 2.0).float("beta", 1.0).float("bias", 1.0);
    near(eval("lrn", lrn, &[f32s([1, 2, 1], &[1., 2.])]).to_f64(), &[1. / 6., 2. / 5.]);
    // With equal scores, attention is the mean of the values that the mask allows.
    let [q, k] = [f32s([1, 1, 1, 1], &[0.]), f32s([1, 1, 3, 1], &[1., 2., 3.])];
    let [v, mask] = [f32s([1, 1, 3, 1], &[3., 5., 100.]), f32s([3], &[0., 0., f32::NEG_INFINITY])];
    near(eval("attention", Attrs::new().float("scale", 1.0), &[q, k, v, mask]).to_f64(), &[4.]);
}

#[test]
fn functions_have_their_values() {
    let cases = [
        ("erf", &[][..], 1.0, 0.842_700_792_949_714_9),
        ("erf", &[], -3.0, -0.999_977_909_503_001_4),
        ("gelu", &[], 1.0, 0.841_344_746_068_542_9),
        ("gelu-tanh", &[], 1.0, 0.841_191_990_607_476_4),
        ("round", &[], 2.5, 2.0),
        ("round", &[], -1.5, -2.0),
        ("sign", &[], -0.5, -1.0),
        ("softplus", &[], 1000.0, 1000.0),
        ("mish", &[], 1.0, 0.865_098_388_267_322_1),
        ("hard-swish", &[], 1.0, 2.0 / 3.0),
        ("hard-sigmoid", &[0.2, 0.5], 1.0, 0.7),
        ("elu", &[2.0], -1.0, -1.264_241_117_657_115_4),
        ("leaky-relu", &[0.1], -2.0, -0.2),
        ("silu", &[], 1.0, 0.731_058_578_630_004_9),
        ("clip", &[0.0, 6.0], 7.0, 6.0),
    ];
    for (op, parameters, x, want) in cases {
        let function = scalar::built_in().iter().find(|function| function.name() == op).unwrap();
        let got = function.evaluate(parameters, &[x]);
        assert!((got - want).abs() < 1e-12, "{op}({x}) is {got} instead of {want}");
    }
}

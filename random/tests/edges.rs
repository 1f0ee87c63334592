//! What happens at the edges, as `docs/NUMERICS.md` says it.
#![allow(clippy::unwrap_used)]

use ovolo::onnx::proto::{AttributeProto, NodeProto};
use ovolo::tensor::{DType, Tensor};
use ovolo_random::{Bench, Kind, Leaf, Model, Verdict, float, int, list, text};
use std::sync::LazyLock;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new(&["native", "cpu", "strict"]).unwrap());

fn node(op: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    let input = inputs.iter().map(|&name| name.to_owned()).collect();
    NodeProto { op_type: op.into(), input, output: vec![output.into()], attribute, ..NodeProto::default() }
}

fn input(name: &str, dtype: DType, dims: &[usize], values: &[f64]) -> Leaf {
    Leaf { name: name.into(), tensor: Tensor::from_f64(dtype, dims, values), constant: false }
}

fn constant(name: &str, dtype: DType, dims: &[usize], values: &[f64]) -> Leaf {
    Leaf { constant: true, ..input(name, dtype, dims, values) }
}

fn model(leaves: Vec<Leaf>, nodes: Vec<NodeProto>, output: DType) -> Model {
    Model { opset: 17, leaves, nodes, outputs: vec![("y".into(), output)] }
}

/// Asserts that every pipeline gives these values, within a thousandth.
fn gives(model: &Model, want: &[f64]) {
    for outputs in BENCH.outputs(model).unwrap_or_else(|failure| panic!("{failure:?}\n{}", model.text())) {
        let got = outputs[0].to_f64();
        let same =
            |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-3 * b.abs();
        assert!(
            got.len() == want.len() && got.iter().zip(want).all(same),
            "{got:?} is not {want:?}\n{}",
            model.text()
        );
    }
}

/// Asserts that every pipeline agrees with the definitions of the ops, also on which elements are not finite.
fn agrees(bench: &Bench, model: &Model) {
    let verdict = bench.judge(model, None);
    assert!(matches!(verdict, Verdict::Right), "{verdict:?}\n{}", model.text());
}

/// Returns numbers of which one is negative infinity, one is NaN, and those of the list are infinite.
fn spoiled(count: usize, infinite: &[usize]) -> Vec<f64> {
    let mut values: Vec<f64> = (0..count).map(|at| f64::from(at as u32 % 7) / 4.0 - 0.5).collect();
    values[count / 3] = -INF;
    values[count / 2] = NAN;
    infinite.iter().for_each(|&at| values[at] = INF);
    values
}

/// Returns numbers between -1 and 1.
fn weights(count: usize) -> Vec<f64> {
    (0..count).map(|at| f64::from(at as u32 % 5) / 2.0 - 0.9).collect()
}

/// Asserts that no pipeline runs the model, and that the message says why.
fn refuses(model: &Model, kind: Kind, why: &str) {
    let failure = BENCH.outputs(model).unwrap_err();
    assert!(failure.kind == kind && failure.what.contains(why), "{failure:?}");
}

/// One node of one operand.
fn unary(op: &str, attributes: Vec<AttributeProto>, dims: &[usize], values: &[f64], want: &[f64]) {
    let node = node(op, &["x"], "y", attributes);
    gives(&model(vec![input("x", DType::F32, dims, values)], vec![node], DType::F32), want);
}

#[test]
fn a_factor_and_its_divisor_end_the_growth() {
    let leaves = vec![input("x", DType::F32, &[2], &[3.0, -1.0]), constant("c", DType::F32, &[], &[0.125])];
    let nodes = vec![node("Mul", &["x", "c"], "t", vec![]), node("Div", &["t", "c"], "y", vec![])];
    gives(&model(leaves, nodes, DType::F32), &[3.0, -1.0]);
}

#[test]
fn factors_are_joined_only_where_their_type_holds_the_product() {
    let scaled = |dtype, x: f64, first: f64, second: f64, want: f64| {
        let leaves = vec![
            input("x", dtype, &[1], &[x]),
            constant("c", dtype, &[], &[first]),
            constant("d", dtype, &[], &[second]),
        ];
        let nodes = vec![node("Mul", &["x", "c"], "t", vec![]), node("Mul", &["t", "d"], "y", vec![])];
        gives(&model(leaves, nodes, dtype), &[want]);
    };
    scaled(DType::F32, 1e-30, 1e30, 1e30, 1e30);
    scaled(DType::F16, 0.001, 1000.0, 1000.0, 1000.5);
}

#[test]
fn a_divisor_without_a_reciprocal_divides() {
    let leaves =
        vec![input("x", DType::F32, &[3], &[0.0, 1e-38, 1e-40]), constant("c", DType::F32, &[], &[1e-40])];
    let want = [0.0, f64::from(1e-38_f32 / 1e-40_f32), 1.0];
    gives(&model(leaves, vec![node("Div", &["x", "c"], "y", vec![])], DType::F32), &want);
}

#[test]
fn large_equal_elements_share_the_probability() {
    let half = -std::f64::consts::LN_2;
    unary("LogSoftmax", vec![int("axis", 1)], &[1, 2], &[3e38, 3e38], &[half, half]);
    unary("LogSoftmax", vec![int("axis", 0)], &[2, 1], &[3e38, 3e38], &[half, half]);
}

#[test]
fn norms_far_from_zero_keep_the_digits_of_their_elements() {
    let row: Vec<f64> = (0..64).map(|at| 10000.0 + f64::from(at % 7) / 4.0).collect();
    #[allow(clippy::cast_precision_loss)]
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    #[allow(clippy::cast_precision_loss)]
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64;
    let want: Vec<f64> = row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect();
    let leaves = |dims: &[usize], scales: usize| {
        vec![
            input("x", DType::F32, dims, &row),
            constant("s", DType::F32, &[scales], &vec![1.0; scales]),
            constant("b", DType::F32, &[scales], &vec![0.0; scales]),
        ]
    };
    let layer = node("LayerNormalization", &["x", "s", "b"], "y", vec![]);
    gives(&model(leaves(&[1, 64], 64), vec![layer], DType::F32), &want);
    let instance = node("InstanceNormalization", &["x", "s", "b"], "y", vec![]);
    gives(&model(leaves(&[1, 1, 8, 8], 1), vec![instance], DType::F32), &want);
}

#[test]
fn the_extreme_of_a_line_with_nan_is_nan() {
    for op in ["ReduceMax", "ReduceMin"] {
        let lines: Vec<f64> = (0..3)
            .flat_map(|line| (0..40).map(move |at| if line == 1 && at == 3 { NAN } else { 1.0 }))
            .collect();
        let attributes = vec![list("axes", &[1]), int("keepdims", 0)];
        unary(op, attributes, &[3, 40], &lines, &[1.0, NAN, 1.0]);
        let columns: Vec<f64> = (0..40)
            .flat_map(|at| (0..3).map(move |line| if line == 1 && at == 3 { NAN } else { 1.0 }))
            .collect();
        let attributes = vec![list("axes", &[0]), int("keepdims", 0)];
        unary(op, attributes, &[40, 3], &columns, &[1.0, NAN, 1.0]);
    }
}

#[test]
fn the_logarithm_of_a_sum_of_powers_bears_infinities() {
    let attributes = vec![list("axes", &[1]), int("keepdims", 0)];
    let lines = [INF, 1.0, -INF, -INF, -INF, 0.0, 1000.0, 0.0];
    unary("ReduceLogSumExp", attributes, &[4, 2], &lines, &[INF, -INF, 0.0, 1000.0]);
}

#[test]
fn the_inverse_hyperbolic_cosine_has_no_overflow() {
    unary("Acosh", vec![], &[2], &[3.4e38, 1.0], &[89.415_15, 0.0]);
}

#[test]
fn a_slope_that_is_no_number_matters_only_below_zero() {
    let leaves = |slope: f64| {
        vec![input("x", DType::F32, &[3], &[2.0, 0.0, -1.0]), input("s", DType::F32, &[1], &[slope])]
    };
    let node = || vec![node("PRelu", &["x", "s"], "y", vec![])];
    gives(&model(leaves(NAN), node(), DType::F32), &[2.0, 0.0, NAN]);
    gives(&model(leaves(INF), node(), DType::F32), &[2.0, 0.0, -INF]);
}

#[test]
fn a_bound_that_is_nan_bounds_nothing() {
    let x = || input("x", DType::F32, &[4], &[INF, -INF, 0.5, NAN]);
    let scalar = |name, value| input(name, DType::F32, &[], &[value]);
    let clip = || vec![node("Clip", &["x", "lo", "hi"], "y", vec![])];
    let leaves = vec![x(), scalar("lo", NAN), scalar("hi", 1.0)];
    gives(&model(leaves, clip(), DType::F32), &[1.0, -INF, 0.5, NAN]);
    let leaves = vec![x(), scalar("lo", 0.0), scalar("hi", NAN)];
    gives(&model(leaves, clip(), DType::F32), &[INF, 0.0, 0.5, NAN]);
}

#[test]
fn the_image_of_a_region_must_exist() {
    for image in [-1.0, 1.0] {
        let leaves = vec![
            input("x", DType::F32, &[1, 1, 2, 2], &[1.0; 4]),
            input("r", DType::F32, &[2, 4], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
            input("i", DType::I64, &[2], &[0.0, image]),
        ];
        let attributes = vec![int("output_height", 1), int("output_width", 1)];
        let one = model(leaves, vec![node("RoiAlign", &["x", "r", "i"], "y", attributes)], DType::F32);
        let why =
            format!("the number of the image {image} (element 1 of that operand) must be between 0 and 0");
        refuses(&one, Kind::Failed, &why);
    }
}

#[test]
fn a_sequence_is_no_longer_than_the_steps() {
    for (op, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
        let one = |length: f64| {
            let ones =
                |name, dims: &[usize]| input(name, DType::F32, dims, &vec![1.0; dims.iter().product()]);
            let leaves = vec![
                ones("x", &[5, 2, 3]),
                ones("w", &[1, gates * 2, 3]),
                ones("r", &[1, gates * 2, 2]),
                input("n", DType::I32, &[2], &[5.0, length]),
            ];
            let layer = node(op, &["x", "w", "r", "", "n"], "y", vec![int("hidden_size", 2)]);
            model(leaves, vec![layer], DType::F32)
        };
        for length in [-1.0, 6.0] {
            let why = format!(
                "the length of the sequence {length} (element 1 of that operand) must be between 0 and 5"
            );
            refuses(&one(length), Kind::Failed, &why);
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error_that_names_it() {
    let leaves = |index: &[f64], dims: &[usize]| {
        vec![input("x", DType::F32, &[3, 4], &[0.0; 12]), input("i", DType::I64, dims, index)]
    };
    for (op, dims, index) in [
        ("Gather", &[2][..], &[0.0, 5.0][..]),
        ("GatherElements", &[1, 2], &[-3.0, -4.0]),
        ("GatherND", &[2, 1], &[2.0, 3.0]),
    ] {
        let one = model(leaves(index, dims), vec![node(op, &["x", "i"], "y", vec![])], DType::F32);
        let why = format!(
            "index {} (element 1 of the indices) is out of range for dimension 0, which is 3",
            index[1]
        );
        refuses(&one, Kind::Failed, &why);
        refuses(&one, Kind::Failed, "`y`");
    }
    for (op, dims, updates) in
        [("ScatterElements", &[1, 1][..], &[1, 1][..]), ("ScatterND", &[1, 1], &[1, 4])]
    {
        let mut leaves = leaves(&[3.0], dims);
        leaves.push(input("u", DType::F32, updates, &vec![1.0; updates.iter().product()]));
        let one = model(leaves, vec![node(op, &["x", "i", "u"], "y", vec![])], DType::F32);
        refuses(
            &one,
            Kind::Failed,
            "index 3 (element 0 of the indices) is out of range for dimension 0, which is 3",
        );
    }
}

#[test]
fn a_division_of_integers_by_zero_is_an_error_that_names_the_element() {
    for (op, dtype) in [("Div", DType::I32), ("Mod", DType::I64), ("Div", DType::U8)] {
        let leaves =
            vec![input("a", dtype, &[3], &[1.0, 2.0, 3.0]), input("b", dtype, &[3], &[1.0, 2.0, 0.0])];
        let one = model(leaves, vec![node(op, &["a", "b"], "y", vec![])], dtype);
        refuses(&one, Kind::Failed, "division of integers by zero: element 2 of the divisor is 0");
    }
    let leaves = vec![constant("a", DType::I64, &[1], &[1.0]), constant("b", DType::I64, &[1], &[0.0])];
    let one = model(leaves, vec![node("Div", &["a", "b"], "y", vec![])], DType::I64);
    refuses(&one, Kind::Refused, "division of integers by zero");
}

#[test]
fn an_empty_value_takes_the_size_that_is_left() {
    let leaves = vec![input("x", DType::F32, &[0, 3], &[]), input("s", DType::F32, &[3], &[0.0; 3])];
    let leaves = leaves.into_iter().chain([Leaf {
        name: "shape".into(),
        tensor: Tensor::from_elements([2], &[0_i64, -1]),
        constant: true,
    }]);
    let nodes = vec![node("Reshape", &["x", "shape"], "t", vec![]), node("Add", &["t", "s"], "y", vec![])];
    gives(&model(leaves.collect(), nodes, DType::F32), &[]);
}

#[test]
fn an_infinite_pixel_stays_in_its_window_where_nothing_is_assumed() {
    let strict = Bench::new(&["strict"]).unwrap();
    let mut image = vec![0.5; 16 * 26 * 26];
    image[5 * 26 + 7] = INF;
    let weights: Vec<f64> = (0..32 * 16 * 9).map(|at| f64::from(at % 5) / 8.0 - 0.2).collect();
    let leaves = vec![
        input("x", DType::F32, &[1, 16, 26, 26], &image),
        constant("w", DType::F32, &[32, 16, 3, 3], &weights),
    ];
    let pads = list("pads", &[1, 1, 1, 1]);
    let nodes = vec![
        node("Conv", &["x", "w"], "t", vec![pads]),
        node("LeakyRelu", &["t"], "y", vec![float("alpha", 0.1)]),
    ];
    let outputs = strict.outputs(&model(leaves, nodes, DType::F32)).unwrap();
    let numberless = outputs[0][0].to_f64().iter().filter(|value| !value.is_finite()).count();
    assert!((1..=32 * 9).contains(&numberless), "{numberless} elements are not finite");
}

#[test]
fn a_bound_keeps_nan_where_nothing_is_assumed() {
    let strict = Bench::new(&["strict", "native"]).unwrap();
    for (op, attributes) in
        [("Relu", vec![]), ("HardSigmoid", vec![]), ("LeakyRelu", vec![float("alpha", 0.1)])]
    {
        let mut image = weights(16 * 144);
        image[3 * 144 + 20] = NAN;
        let leaves = vec![
            input("x", DType::F32, &[1, 16, 12, 12], &image),
            constant("w", DType::F32, &[20, 16, 1, 1], &weights(20 * 16)),
        ];
        let nodes = vec![node("Conv", &["x", "w"], "c", vec![]), node(op, &["c"], "y", attributes)];
        agrees(&strict, &model(leaves, nodes, DType::F32));
    }
}

#[test]
fn what_a_constant_keeps_apart_stays_apart() {
    let bench = Bench::new(&["native", "cpu", "strict", "superoptimise", "merged"]).unwrap();
    let pads = |size| list("pads", &[size; 4]);
    // Each convolution is one that some rule would compute by sums of pixels, of groups or of rows.
    for (outputs, channels, groups, kernel, side) in
        [(32, 16, 1, 3, 26), (16, 16, 1, 5, 26), (64, 64, 1, 1, 16), (64, 32, 8, 3, 14), (32, 32, 2, 1, 9)]
    {
        let count = channels * side * side;
        let image = constant("x", DType::F32, &[1, channels, side, side], &spoiled(count, &[5, count - 9]));
        let shape = [outputs, channels / groups, kernel, kernel];
        let filter = constant("w", DType::F32, &shape, &weights(shape.iter().product()));
        let attributes = || vec![pads(kernel as i64 / 2), int("group", groups as i64)];
        // Either the bias or a term is not constant.
        let bias = input("b", DType::F32, &[outputs], &weights(outputs));
        let nodes = vec![node("Conv", &["x", "w", "b"], "y", attributes())];
        agrees(&bench, &model(vec![image.clone(), filter.clone(), bias], nodes, DType::F32));
        let size = [1, outputs, side, side];
        let term = input("t", DType::F32, &size, &weights(size.iter().product()));
        let nodes = vec![
            node("Conv", &["x", "w"], "c", attributes()),
            node("Add", &["c", "t"], "s", vec![]),
            node("Relu", &["s"], "y", vec![]),
        ];
        agrees(&bench, &model(vec![image, filter, term], nodes, DType::F32));
    }
    let leaves = vec![
        constant("a", DType::F32, &[256, 128], &spoiled(256 * 128, &[77])),
        constant("w", DType::F32, &[128, 128], &weights(128 * 128)),
        input("t", DType::F32, &[256, 128], &weights(256 * 128)),
    ];
    let nodes = vec![node("MatMul", &["a", "w"], "c", vec![]), node("Add", &["c", "t"], "y", vec![])];
    agrees(&bench, &model(leaves, nodes, DType::F32));
}

#[test]
fn channels_that_do_not_fill_a_block_leave_no_infinity_in_its_padding() {
    let strict = Bench::new(&["strict"]).unwrap();
    let pads = || list("pads", &[1; 4]);
    for channels in [3, 16, 20] {
        let leaves = vec![
            input("x", DType::F32, &[1, channels, 20, 40], &spoiled(channels * 800, &[41])),
            constant("w", DType::F32, &[20, channels, 3, 3], &weights(20 * channels * 9)),
            constant("d", DType::F32, &[20, 1, 3, 3], &weights(20 * 9)),
            constant("v", DType::F32, &[24, 20, 1, 1], &weights(24 * 20)),
        ];
        let window = vec![list("kernel_shape", &[2, 2]), list("strides", &[2, 2])];
        let nodes = vec![
            node("Conv", &["x", "w"], "c", vec![pads()]),
            node("LeakyRelu", &["c"], "r", vec![float("alpha", 0.1)]),
            node("Conv", &["r", "d"], "e", vec![pads(), int("group", 20)]),
            node("Add", &["r", "e"], "s", vec![]),
            node("AveragePool", &["s"], "p", window),
            node("Conv", &["p", "v"], "y", vec![]),
        ];
        agrees(&strict, &model(leaves, nodes, DType::F32));
    }
}

#[test]
fn groups_stay_apart_where_nothing_is_assumed() {
    let strict = Bench::new(&["strict"]).unwrap();
    for (channels, outputs, groups) in [(32, 64, 8), (64, 128, 16), (16, 16, 8)] {
        let leaves = vec![
            input("x", DType::F32, &[1, channels, 14, 14], &spoiled(channels * 196, &[41])),
            constant(
                "w",
                DType::F32,
                &[outputs, channels / groups, 3, 3],
                &weights(outputs * channels / groups * 9),
            ),
        ];
        let attributes = vec![list("pads", &[1; 4]), int("group", groups as i64)];
        agrees(&strict, &model(leaves, vec![node("Conv", &["x", "w"], "y", attributes)], DType::F32));
    }
}

/// Returns an `Einsum` of inputs named `a`, `b` and so on.
fn einsum(equation: &str, operands: &[(&[usize], &[f64])]) -> Model {
    let names = ["a", "b", "c", "d", "e"];
    let leaves =
        operands.iter().zip(names).map(|((dims, values), name)| input(name, DType::F32, dims, values));
    let equation = text("equation", equation);
    let nodes = vec![node("Einsum", &names[..operands.len()], "y", vec![equation])];
    model(leaves.collect(), nodes, DType::F32)
}

#[test]
fn an_einsum_multiplies_from_left_to_right_where_nothing_is_assumed() {
    let strict = Bench::new(&["strict"]).unwrap();
    let is = |model: &Model, want: &[f64]| {
        let outputs = strict.outputs(model).unwrap();
        assert_eq!(outputs[0][0].to_f64(), want, "{}", model.text());
        agrees(&strict, model);
    };
    // In the second product zero would meet infinity.
    let (a, b) = ([1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]);
    let chain = [(&[2, 2][..], &a[..]), (&[2, 2], &b), (&[2, 1], &[INF, 1.0])];
    is(&einsum("ab,bc,cd->ad", &chain), &[INF, INF]);
    // The product of the last two is less than the least number of f32, and infinity times zero is NaN.
    for count in 3..=5 {
        let values: Vec<f64> = std::iter::once(INF).chain(std::iter::repeat_n(1e-30, count - 1)).collect();
        let operands: Vec<(&[usize], &[f64])> =
            values.iter().map(|value| (&[1][..], std::slice::from_ref(value))).collect();
        is(&einsum(&format!("{}->a", vec!["a"; count].join(",")), &operands), &[INF]);
    }
}

#[test]
fn zeros_keep_their_sign_and_sums_of_no_elements_are_positive() {
    // The reciprocal tells the sign of a zero.
    for (op, sign) in
        [("Tanh", 1.0), ("Neg", -1.0), ("Floor", 1.0), ("Ceil", 1.0), ("Sin", 1.0), ("Asinh", 1.0)]
    {
        for x in [-0.0_f64, 0.0] {
            let want = INF.copysign(x) * sign;
            let nodes = vec![node(op, &["x"], "t", vec![]), node("Reciprocal", &["t"], "y", vec![])];
            gives(&model(vec![input("x", DType::F32, &[9], &[x; 9])], nodes, DType::F32), &[want; 9]);
        }
    }
    for op in ["ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"] {
        let axes = Tensor::from_elements([1], &[1_i64]);
        let axes = Leaf { name: "axes".into(), tensor: axes, constant: true };
        let leaves = vec![input("x", DType::F32, &[2, 0, 3], &[]), axes];
        let nodes = vec![
            node(op, &["x", "axes"], "t", vec![int("keepdims", 0)]),
            node("Reciprocal", &["t"], "y", vec![]),
        ];
        gives(&Model { opset: 18, ..model(leaves, nodes, DType::F32) }, &[INF; 6]);
    }
}

#[test]
fn what_has_no_elements_is_padded_and_tiled() {
    let numbers = |name: &str, list: &[i64]| Leaf {
        name: name.into(),
        tensor: Tensor::from_elements([list.len()], list),
        constant: true,
    };
    let one = |x: Leaf, op: &str, list: &[i64], attributes| {
        model(vec![x, numbers("n", list)], vec![node(op, &["x", "n"], "y", attributes)], DType::F32)
    };
    let empty = || input("x", DType::F32, &[2, 0], &[]);
    gives(&one(empty(), "Pad", &[0, 1, 0, 1], vec![]), &[0.0; 4]);
    refuses(&one(empty(), "Pad", &[0, 1, 0, 1], vec![text("mode", "edge")]), Kind::Refused, "no elements");
    let full = || input("x", DType::F32, &[2, 3], &[1.0; 6]);
    gives(&one(full(), "Pad", &[0, -1, 0, -2], vec![]), &[]);
    gives(&one(full(), "Pad", &[0, -1, 0, 0], vec![]), &[1.0; 4]);
    gives(&one(full(), "Tile", &[0, 2], vec![]), &[]);
    gives(&one(empty(), "Tile", &[2, 2], vec![]), &[]);
}

#[test]
fn no_element_of_an_empty_line_has_a_position() {
    for op in ["ArgMax", "ArgMin"] {
        let one = |dims: &[usize]| {
            let node = node(op, &["x"], "y", vec![int("axis", 1)]);
            model(vec![input("x", DType::F32, dims, &[])], vec![node], DType::I64)
        };
        refuses(&one(&[2, 0]), Kind::Refused, "dimension 1 has no elements");
        gives(&one(&[0, 0]), &[]);
        gives(&one(&[0, 2]), &[]);
    }
}

#[test]
fn casts_of_numbers_beyond_an_integer_type_give_its_nearest_end_and_nan_gives_zero() {
    let ends = [
        (DType::I8, -128.0, 127.0),
        (DType::U8, 0.0, 255.0),
        (DType::I16, -32768.0, 32767.0),
        (DType::U16, 0.0, 65535.0),
        (DType::I32, -2_147_483_648.0, 2_147_483_647.0),
        (DType::U32, 0.0, 4_294_967_295.0),
        (DType::I64, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_807.0),
        (DType::U64, 0.0, 18_446_744_073_709_551_615.0),
    ];
    let code = [3, 2, 5, 4, 6, 12, 7, 13];
    for from in [DType::F32, DType::F64, DType::F16] {
        for ((to, least, most), code) in ends.into_iter().zip(code) {
            let x = input("x", from, &[6], &[NAN, INF, -INF, -0.0, 1.75, -0.75]);
            let one = model(vec![x], vec![node("Cast", &["x"], "y", vec![int("to", code)])], to);
            gives(&one, &[0.0, most, least, 0.0, 1.0, 0.0]);
        }
    }
}

#[test]
fn the_lowest_integer_divided_by_minus_one_wraps() {
    for (dtype, least) in [(DType::I32, -2_147_483_648.0), (DType::I8, -128.0)] {
        let leaves = || {
            vec![input("a", dtype, &[3], &[least, -7.0, 7.0]), input("b", dtype, &[3], &[-1.0, 2.0, -2.0])]
        };
        gives(&model(leaves(), vec![node("Div", &["a", "b"], "y", vec![])], dtype), &[least, -3.0, -3.0]);
        gives(&model(leaves(), vec![node("Mod", &["a", "b"], "y", vec![])], dtype), &[0.0, 1.0, -1.0]);
    }
}

#[test]
fn a_pool_takes_no_heed_of_nan_and_a_scattered_extreme_keeps_it() {
    let mut image: Vec<f64> = (0..16).map(f64::from).collect();
    image[5] = NAN;
    let window = vec![list("kernel_shape", &[2, 2]), list("strides", &[2, 2])];
    let one = model(
        vec![input("x", DType::F32, &[1, 1, 4, 4], &image)],
        vec![node("MaxPool", &["x"], "y", window)],
        DType::F32,
    );
    gives(&one, &[4.0, 7.0, 13.0, 15.0]);
    let leaves = vec![
        input("x", DType::F32, &[2], &[1.0, 2.0]),
        input("i", DType::I64, &[3, 1], &[-1.0, -1.0, 0.0]),
        input("u", DType::F32, &[3], &[NAN, 9.0, 3.0]),
    ];
    let nodes = vec![node("ScatterND", &["x", "i", "u"], "y", vec![text("reduction", "max")])];
    gives(&Model { opset: 18, ..model(leaves, nodes, DType::F32) }, &[3.0, NAN]);
}

#[test]
fn is_inf_that_looks_for_neither_infinity_finds_none() {
    let leaves = vec![input("x", DType::F32, &[4], &[INF, -INF, NAN, 1.0])];
    let attributes = vec![int("detect_negative", 0), int("detect_positive", 0)];
    gives(&model(leaves, vec![node("IsInf", &["x"], "y", attributes)], DType::Bool), &[0.0; 4]);
}

//! Tests that quantised models are computed from levels to levels, with the values of their definition.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use crate::proto as onnx;
use ovolo::compile;
use ovolo::graph::{Graph, text};
use ovolo::onnx::proto::{GraphProto, NodeProto, OperatorSetId, TensorProto};
use ovolo::onnx::{ImportOptions, from_bytes, load};
use ovolo::session::Session;
use ovolo::stage::Scale;
use ovolo::tensor::{DType, Tensor};
use prost::Message as _;
use std::collections::BTreeSet;

/// An image of levels, weights, and a scale and a zero point of results. Binary32 holds all numbers exactly.
const IMAGE: &str = "
    x: u8[1,16,6,6] = input
    s: f32[] = const [0.0625]
    p: u8[] = const [128]
    w: i8[16,16,3,3] = const ~1
    b: f32[16] = const splat 0.5
    r: f32[] = const [2.0]
    z: u8[] = const [100]
    i = dequantize(x, s, p)";

/// Returns a graph in text form.
fn graph(source: &str) -> Graph {
    text::parse(common::ops(), &format!("graph {{\n{source}\n}}")).unwrap()
}

/// Returns the levels that an input gets: the least and the greatest one, and two between them.
fn levels(name: &str, dtype: DType, shape: &[usize]) -> Tensor {
    let least = if dtype == DType::I8 { -128.0 } else { 0.0 };
    let values = common::random(name, dtype, shape).to_f64();
    Tensor::from_f64(dtype, shape, &values.iter().map(|value| value * 85.0 + least).collect::<Vec<_>>())
}

/// Compiles a graph, compares its values with those of the reference, and returns them with the lowered ops of the plan.
fn run(graph: &Graph, inputs: &[Tensor], most: f64) -> (Vec<Tensor>, BTreeSet<String>) {
    let compilation = compile::compile(graph.clone(), &common::options(1)).unwrap();
    let mut session =
        Session::new(&compilation.program, compilation.plan.clone(), common::registry().backends()).unwrap();
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    for (output, expected) in outputs.iter().zip(&common::reference(graph, inputs)) {
        let error = common::relative_error(output, expected);
        assert!(error <= most, "a relative error of {error:e} in\n{}", text::print(graph));
    }
    (outputs.to_vec(), compilation.plan.steps.iter().map(|step| step.op.to_string()).collect())
}

/// Returns the lowered ops of the plan of a graph.
fn ops(graph: &Graph) -> BTreeSet<String> {
    let inputs: Vec<Tensor> =
        graph.inputs().map(|(_, node)| levels(&node.name, node.ty.dtype, &node.ty.shape)).collect();
    run(graph, &inputs, 0.0).1
}

/// Returns whether a plan computes from levels to levels: none of its ops is of floats.
fn on_levels(ops: &BTreeSet<String>) -> bool {
    let moves = ["pack", "unpack", "reshape", "transpose", "transpose-view", "concat", "slice"];
    let of_levels = |op: &str| {
        let name = op.trim_start_matches("native.");
        name.contains("integer") || name.contains("requantize") || moves.contains(&name)
    };
    ops.iter().any(|op| op.contains("requantize")) && ops.iter().all(|op| of_levels(op))
}

#[test]
fn weights_of_levels_have_scales_and_zero_points_of_either_form() {
    let one = ("t: f32[] = const [0.25]", "q: i8[] = const [3]");
    let each = ("t: f32[16,1,1,1] = const splat 0.25", "q: i8[16,1,1,1] = const splat 3");
    for (scale, zero) in [one, each, (each.0, one.1)] {
        let ops = ops(&graph(&format!(
            "{IMAGE}
            {scale}
            {zero}
            f = dequantize(w, t, q)
            c = conv(i, f, b) {{strides: [2,2]}}
            y = quantize(c, r, z)
            return y"
        )));
        assert!(on_levels(&ops), "{scale} {zero}: {ops:?}");
    }
    let column = ("t: f32[1,24] = const splat 0.25", "q: i8[1,24] = const splat 3");
    for (scale, zero) in [one, column, (column.0, one.1)] {
        let ops = ops(&graph(&format!(
            "x: u8[8,64] = input
            s: f32[] = const [0.0625]
            p: u8[] = const [128]
            w: i8[64,24] = const ~1
            {scale}
            {zero}
            r: f32[] = const [2.0]
            z: u8[] = const [100]
            i = dequantize(x, s, p)
            f = dequantize(w, t, q)
            m = matmul(i, f)
            y = quantize(m, r, z)
            return y"
        )));
        assert!(on_levels(&ops), "{scale} {zero}: {ops:?}");
    }
}

#[test]
fn a_row_of_levels_is_convolved_as_an_image_is() {
    let ops = ops(&graph(
        "x: u8[1,16,20] = input
        s: f32[] = const [0.0625]
        p: u8[] = const [128]
        w: i8[16,16,3] = const ~1
        t: f32[16,1,1] = const splat 0.25
        q: i8[] = const [3]
        b: f32[16] = const splat 0.5
        r: f32[] = const [2.0]
        z: u8[] = const [100]
        i = dequantize(x, s, p)
        f = dequantize(w, t, q)
        i.image = reshape(i) {shape: [1,16,1,20]}
        f.image = reshape(f) {shape: [16,16,1,3]}
        c = conv(i.image, f.image, b) {strides: [1,2]}
        c.row = reshape(c) {shape: [1,16,9]}
        y = quantize(c.row, r, z)
        return y",
    ));
    assert!(on_levels(&ops), "{ops:?}");
}

#[test]
fn sums_that_32_bits_do_not_hold_stay_in_floats() {
    let greatest = [Tensor::from_f64(DType::U8, [1, 33026], &[255.0; 33026])];
    let matrices = "
        x: u8[1,33026] = input
        w: u8[33026,1] = const splat 255
        p: u8[] = const [0]";
    let product = graph(&format!(
        "{matrices}
        s: f32[] = const [0.0625]
        i = dequantize(x, s, p)
        f = dequantize(w, s, p)
        y = matmul(i, f)
        return y"
    ));
    let (outputs, ops) = run(&product, &greatest, 1e-4);
    assert!(!ops.iter().any(|op| op.contains("integer")), "{ops:?}");
    let exact = 33026.0 * 255.0 * 255.0 / 256.0;
    assert!((outputs[0].to_f64()[0] / exact - 1.0).abs() < 1e-4, "{:?}", outputs[0].to_f64());

    // A product of integers that a model has itself wraps around, as the standard says.
    let product = graph(&format!("{matrices}\ny = matmul-integer(x, w, p, p)\nreturn y"));
    let (outputs, _) = run(&product, &greatest, 0.0);
    assert_eq!(outputs[0].to_f64(), [f64::from(33026_i32.wrapping_mul(255 * 255))]);
}

#[test]
fn levels_stay_levels_between_layers() {
    let between = [
        "a = relu(d)",
        "a = clip(d) {min: 0.0, max: 96.0}",
        "a = clip(d) {min: -1000.0, max: 1000.0}",
        "a = concat(d, d) {axis: 2}",
    ];
    for step in between {
        let ops = ops(&graph(&format!(
            "{IMAGE}
            t: f32[] = const [0.25]
            q: i8[] = const [3]
            f = dequantize(w, t, q)
            c = conv(i, f, b) {{pads: [1,1,1,1]}}
            l = quantize(c, r, z)
            d = dequantize(l, r, z)
            {step}
            e = conv(a, f, b) {{strides: [2,2]}}
            u: f32[] = const [64.0]
            y = quantize(e, u, z)
            return y"
        )));
        assert!(on_levels(&ops), "{step}: {ops:?}");
    }
}

#[test]
fn a_transposed_convolution_with_unit_strides_is_one_of_levels() {
    for scale in ["t: f32[] = const [0.25]", "t: f32[1,16,1,1] = const splat 0.25"] {
        let ops = ops(&graph(&format!(
            "{IMAGE}
            {scale}
            q: i8[] = const [3]
            f = dequantize(w, t, q)
            c = conv-transpose(i, f, b) {{pads: [2,2,2,2]}}
            y = quantize(c, r, z)
            return y"
        )));
        assert!(on_levels(&ops), "{scale}: {ops:?}");
    }
}

#[test]
fn a_transposed_convolution_with_strides_is_one_of_levels_for_all_phases() {
    let windows = ["2,2", "3,3", "4,3"];
    let attributes = ["strides: [2,2]", "strides: [2,2], pads: [1,1,1,1], output-padding: [1,1]"];
    for (window, attributes) in windows.iter().flat_map(|one| attributes.map(|other| (one, other))) {
        for scale in ["t: f32[] = const [0.25]", "t: f32[1,16,1,1] = const splat 0.25"] {
            let ops = ops(&graph(&format!(
                "x: u8[1,64,12,12] = input
                s: f32[] = const [0.0625]
                p: u8[] = const [128]
                i = dequantize(x, s, p)
                w: i8[64,16,{window}] = const ~1
                {scale}
                q: i8[] = const [3]
                f = dequantize(w, t, q)
                b: f32[16] = const splat 0.5
                c = conv-transpose(i, f, b) {{{attributes}}}
                d = relu(c)
                r: f32[] = const [2.0]
                z: u8[] = const [0]
                y = quantize(d, r, z)
                return y"
            )));
            assert!(on_levels(&ops), "{window}, {attributes}, {scale}: {ops:?}");
        }
    }
}

/// Sums and products of two levels are computed by a formula where it gives all results of the definition. Results are
/// multiples of some thousandth of a level, so that a formula that nobody compared with it gives other levels for some pairs.
#[test]
fn all_pairs_of_levels_have_the_sum_and_the_product_of_their_definition() {
    let shape = [256, 1024];
    let pairs = |level: fn(usize) -> usize| {
        let values: Vec<f64> = (0..shape[0] * shape[1]).map(|at| level(at) as f64).collect();
        Tensor::from_f64(DType::U8, shape, &values)
    };
    let inputs = [pairs(|at| at % 256), pairs(|at| at / 256 % 256)];
    let scales = [[0.0213, 0.0377, 0.0341], [0.05, 0.03, 0.07], [0.011, 0.9, 0.83], [0.1, 0.1, 0.2]];
    for [first, second, scale] in scales {
        for op in ["add", "mul"] {
            let graph = graph(&format!(
                "x: u8[256,1024] = input
                y: u8[256,1024] = input
                s: f32[] = const [{first}]
                t: f32[] = const [{second}]
                u: f32[] = const [{scale}]
                p: u8[] = const [17]
                q: u8[] = const [9]
                r: u8[] = const [3]
                a = dequantize(x, s, p)
                b = dequantize(y, t, q)
                c = {op}(a, b)
                z = quantize(c, u, r)
                return z"
            ));
            assert!(on_levels(&run(&graph, &inputs, 0.0).1), "{op} of {first} and {second}");
        }
    }
}

#[test]
fn operators_on_levels_end_in_levels() {
    for name in ["qlinear_conv", "qlinear_conv_depthwise", "qlinear_conv_one", "qlinear_matmul"] {
        let path = common::root().join("tests/operators").join(name).join("model.onnx");
        let model = load(common::registry().onnx(), &path, &ImportOptions::default()).unwrap();
        let ops = ops(&model.graph);
        assert!(on_levels(&ops), "{name}: {ops:?}");
    }
}

/// The rows and columns of weights in blocks, and the rows of a block.
const BLOCKED: [usize; 3] = [40, 24, 16];

/// Returns a level, the scale of a block, and its zero point.
fn blocked(row: usize, column: usize) -> (usize, f32, usize) {
    let block = row / BLOCKED[2];
    ((row * 7 + column * 5) % 16, 0.25 + 0.25 * (block + column % 3) as f32, (block + column) % 16)
}

/// Checks that a model multiplies rows by the weights of [`blocked`], and reads these as levels.
fn reads_blocks(node: NodeProto, initializer: Vec<TensorProto>, product: Option<NodeProto>) {
    let [rows, columns, _] = BLOCKED;
    let graph = GraphProto {
        node: [node].into_iter().chain(product).collect(),
        input: vec![onnx::value("a", onnx::FLOAT, &["1", "40"])],
        output: vec![onnx::value("y", onnx::FLOAT, &["1", "24"])],
        initializer,
        ..GraphProto::default()
    };
    let mut model = onnx::model(21, graph);
    model.opset_import.push(OperatorSetId { domain: "com.microsoft".to_owned(), version: 1 });
    let model =
        from_bytes(common::registry().onnx(), model.encode_to_vec(), "m", &ImportOptions::default()).unwrap();
    let a = common::random("a", DType::F32, &[1, rows]);
    let (outputs, ops) = run(&model.graph, std::slice::from_ref(&a), 1e-6);
    assert!(ops.iter().any(|op| op.contains("matmul-narrow")), "{ops:?}");
    let a = a.to_f64();
    let weight = |row, column| {
        let (level, scale, zero) = blocked(row, column);
        (level as f64 - zero as f64) * f64::from(scale)
    };
    let expected: Vec<f64> =
        (0..columns).map(|column| (0..rows).map(|row| a[row] * weight(row, column)).sum::<f64>()).collect();
    let expected = Tensor::from_f64(DType::F32, [1, columns], &expected);
    let error = common::relative_error(&outputs[0], &expected);
    assert!(error <= 1e-6, "a relative error of {error:e}");
}

/// Returns an initializer of bytes.
fn bytes(name: &str, dims: &[usize], bytes: Vec<u8>) -> TensorProto {
    let dims = dims.iter().map(|dim| i64::try_from(*dim).unwrap()).collect();
    TensorProto {
        name: name.to_owned(),
        dims,
        data_type: 2,
        raw_data: bytes.into(),
        ..TensorProto::default()
    }
}

#[test]
fn products_read_levels_whose_last_block_is_shorter() {
    let [rows, columns, block] = BLOCKED;
    let blocks = rows.div_ceil(block);
    let byte = |value: usize| u8::try_from(value).unwrap();
    let by = |outer: usize, inner: usize, of: &dyn Fn(usize, usize) -> u8| -> Vec<u8> {
        (0..outer).flat_map(|outer| (0..inner).map(move |inner| of(outer, inner))).collect()
    };
    // Blocks of rows.
    let scales: Vec<f32> =
        (0..blocks).flat_map(|at| (0..columns).map(move |column| blocked(at * block, column).1)).collect();
    let dims = [blocks, columns].map(|dim| i64::try_from(dim).unwrap());
    let node = onnx::node("DequantizeLinear", &["w", "s", "z"], &["f"]);
    let node = onnx::int("axis", 0, onnx::int("block_size", i64::try_from(block).unwrap(), node));
    let initializers = vec![
        bytes("w", &[rows, columns], by(rows, columns, &|row, column| byte(blocked(row, column).0))),
        onnx::floats("s", &dims, &scales),
        bytes(
            "z",
            &[blocks, columns],
            by(blocks, columns, &|at, column| byte(blocked(at * block, column).2)),
        ),
    ];
    reads_blocks(node, initializers, Some(onnx::node("MatMul", &["a", "f"], &["y"])));
    // Blocks of columns, of which the last one is filled up with levels that count for nothing.
    let scales: Vec<f32> =
        (0..columns).flat_map(|column| (0..blocks).map(move |at| blocked(at * block, column).1)).collect();
    let level = |row: usize, column: usize| if row < rows { blocked(row, column).0 } else { 9 };
    for bits in [4, 8] {
        let per = 8 / bits;
        let join = |at: usize, of: &dyn Fn(usize) -> usize| {
            byte((0..per).map(|part| of(at * per + part) << (bits * part)).sum())
        };
        let weights = by(columns, blocks * block / per, &|column, at| join(at, &|row| level(row, column)));
        let point = |at: usize, column: usize| if at < blocks { blocked(at * block, column).2 } else { 0 };
        let points = by(columns, blocks.div_ceil(per), &|column, at| join(at, &|at| point(at, column)));
        let initializers = vec![
            bytes("w", &[columns, blocks, block / per], weights),
            onnx::floats("s", &[dims[0] * dims[1]], &scales),
            bytes("z", &[points.len()], points),
        ];
        let node = onnx::of_domain("com.microsoft", onnx::node("MatMulNBits", &["a", "w", "s", "z"], &["y"]));
        let settings = [("K", rows), ("N", columns), ("bits", bits), ("block_size", block)];
        let node = settings
            .iter()
            .fold(node, |node, (name, value)| onnx::int(name, i64::try_from(*value).unwrap(), node));
        reads_blocks(node, initializers, None);
    }
}

/// Layers that read levels and make levels, with scales of which few numbers are multiples. The last three move levels or
/// choose among them, so integers alone decide what they make.
const LAYERS: &str = "
    x: u8[1,32,24,24] = input
    v: u8[1,32,24,24] = input
    s: f32[] = const [0.0173]
    p: u8[] = const [121]
    s.v: f32[] = const [0.0291]
    p.v: u8[] = const [96]
    xf = dequantize(x, s, p)
    vf = dequantize(v, s.v, p.v)
    z: u8[] = const [113]

    w: i8[48,32,3,3] = const ~1
    t: f32[48,1,1,1] = const splat 0.00713
    q: i8[] = const [4]
    wf = dequantize(w, t, q)
    b: f32[48] = const ~2
    c = conv(xf, wf, b) {pads: [1,1,1,1]}
    s.c: f32[] = const [0.0231]
    conv = quantize(c, s.c, z)

    w.d: i8[32,1,3,3] = const ~3
    t.d: f32[32,1,1,1] = const splat 0.0191
    wf.d = dequantize(w.d, t.d, q)
    b.d: f32[32] = const ~4
    d = conv(vf, wf.d, b.d) {pads: [1,1,1,1], groups: 32}
    s.d: f32[] = const [0.0191]
    depthwise = quantize(d, s.d, z)

    m = reshape(xf) {shape: [32,576]}
    w.m: i8[576,96] = const ~5
    t.m: f32[] = const [0.00533]
    wf.m = dequantize(w.m, t.m, q)
    n = matmul(m, wf.m)
    s.m: f32[] = const [0.00913]
    product = quantize(n, s.m, z)

    a = add(xf, vf)
    s.a: f32[] = const [0.0403]
    sum = quantize(a, s.a, z)

    g = avg-pool(xf) {kernel: [3,3], strides: [1,1]}
    s.g: f32[] = const [0.0117]
    mean = quantize(g, s.g, z)

    h = max-pool(xf) {kernel: [3,3], strides: [2,2]}
    greatest = quantize(h, s, p)
    f = transpose(vf) {perm: [0,2,3,1]}
    moved = quantize(f, s.v, p.v)
    l = concat(xf, xf) {axis: 1}
    joined = quantize(l, s, p)

    return conv
    return depthwise
    return product
    return sum
    return mean
    return greatest
    return moved
    return joined";

/// Floats round their sums, so a number very close to the middle of two levels may become the one or the other.
#[test]
fn layers_depart_by_one_level_in_one_of_a_thousand_elements_and_not_where_integers_decide() {
    let graph = graph(LAYERS);
    let image = |name: &str| {
        let values = common::random(name, DType::F32, &[1, 32, 24, 24]).to_f64();
        let levels: Vec<f64> = values.iter().map(|value| ((value + 2.0) * 64.0).floor()).collect();
        Tensor::from_f64(DType::U8, [1, 32, 24, 24], &levels)
    };
    let inputs = [image("first"), image("second")];
    let (outputs, ops) = run(&graph, &inputs, 1e-2);
    assert!(ops.iter().any(|op| op.contains("requantize")), "{ops:?}");
    let expected = common::reference(&graph, &inputs);
    for (((name, _), output), expected) in graph.outputs().zip(&outputs).zip(&expected) {
        let levels: BTreeSet<u64> = expected.to_f64().iter().map(|level| level.to_bits()).collect();
        assert!(levels.len() > 64, "{name}: {} levels", levels.len());
        let steps: Vec<f64> =
            output.to_f64().iter().zip(expected.to_f64()).map(|(one, other)| (one - other).abs()).collect();
        let departing = steps.iter().filter(|steps| **steps > 0.0).count();
        let moves = ["greatest", "moved", "joined"].contains(&name.as_ref());
        let allowed = if moves { 0 } else { steps.len() / 1000 };
        assert!(departing <= allowed, "{name}: {departing} of {} depart", steps.len());
        assert!(steps.iter().all(|steps| *steps <= 1.0), "{name}: departs by more than a level");
    }
}

/// Attention of levels with a layer norm after it, in which each value is quantised.
const ATTENTION: &str = "
    q: u8[2,24,16] = input
    k: u8[2,16,24] = input
    v: u8[2,24,32] = input
    u: f32[] = const [0.03125]
    p: u8[] = const [120]
    scale: f32[] = const [0.0625]
    zero: u8[] = const [100]
    share: f32[] = const [0.00390625]
    none: u8[] = const [0]
    g: f32[32] = const splat 0.75
    b: f32[32] = const splat 0.25
    qf = dequantize(q, u, p)
    kf = dequantize(k, u, p)
    vf = dequantize(v, u, p)
    scores = matmul(qf, kf)
    scores.q = quantize(scores, scale, zero)
    scores.f = dequantize(scores.q, scale, zero)
    shares = softmax(scores.f) {axis: 2}
    shares.q = quantize(shares, share, none)
    shares.f = dequantize(shares.q, share, none)
    sums = matmul(shares.f, vf)
    sums.q = quantize(sums, u, p)
    sums.f = dequantize(sums.q, u, p)
    normal = layer-norm(sums.f, g, b) {axis: 2}
    y = quantize(normal, u, p)
    return shares = shares.q
    return y";

#[test]
fn shares_and_normal_rows_between_products_are_levels_in_one_pass() {
    let graph = graph(ATTENTION);
    let inputs: Vec<Tensor> =
        graph.inputs().map(|(_, node)| levels(&node.name, node.ty.dtype, &node.ty.shape)).collect();
    let (outputs, ops) = run(&graph, &inputs, 0.0);
    assert!(on_levels(&ops), "{ops:?}");
    for op in ["native.softmax-requantize", "native.layer-norm-requantize"] {
        assert!(ops.contains(op), "{op} is not among {ops:?}");
    }
    for output in outputs {
        let levels: BTreeSet<u64> = output.to_f64().iter().map(|level| level.to_bits()).collect();
        assert!(levels.len() > 16, "{} levels", levels.len());
    }
}

#[test]
fn prices_decide_whether_normal_rows_are_levels_in_one_pass() {
    let (graph, options) = (graph(ATTENTION), common::options(1));
    let saturated = options.saturate(&graph).unwrap();
    let (priced, choice) = (options.price(&saturated).unwrap(), options.choice(&graph).unwrap());
    for norm in ["softmax", "layer-norm"] {
        let fused = format!("native.{norm}-requantize");
        let scale = Scale { ops: fused.clone(), factor: 1000.0 };
        let supposed = priced.what_if(&choice, &[scale]).unwrap();
        let is = |node: &Option<String>, op: &str| {
            node.as_ref().is_some_and(|node| node.split([' ', '{']).next() == Some(op))
        };
        assert!(supposed.flips.iter().any(|flip| is(&flip.before, &fused)), "{:?}", supposed.flips);
        let apart = format!("native.{norm}");
        assert!(supposed.flips.iter().any(|flip| is(&flip.after, &apart)), "{:?}", supposed.flips);
        assert!(!supposed.flips.iter().any(|flip| is(&flip.after, &fused)), "{:?}", supposed.flips);
    }
}

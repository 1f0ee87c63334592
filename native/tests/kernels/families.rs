//! Tests of every family against the reference evaluations of the ops.

use crate::check::{Random, run, verify};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};
use ovolo_native::Isa;

const TOLERANCE: f64 = 2e-6;

fn attrs() -> Attrs {
    Attrs::new()
}

fn layout(name: &str) -> Layout {
    name.parse().unwrap()
}

/// Returns a post chain of the named steps; steps with parameters get fixed ones.
fn post(names: &[&'static str]) -> Attr {
    let step = |&op: &&'static str| {
        let parameters: &[f64] = match op {
            "leaky-relu" => &[0.1],
            "elu" => &[0.7],
            "hard-sigmoid" => &[0.2, 0.5],
            "clip" => &[-0.5, 1.0],
            _ => &[],
        };
        Step { op: op.into(), parameters: parameters.iter().map(|&p| Float(p)).collect() }
    };
    Attr::Post(names.iter().map(step).collect())
}

#[test]
fn unary_ops_agree_with_the_reference() {
    let mut random = Random::new(2);
    for function in ovolo::scalar::built_in() {
        let name = function.name();
        let op = crate::fixture::ops().get(&format!("native.{name}")).unwrap().name;
        let mut attributes = attrs();
        // `f32` represents these exactly, so that thresholds are the same as in double precision.
        let values = [0.25, 0.875];
        for (def, value) in crate::fixture::ops().get(op).unwrap().attrs.iter().zip(values) {
            attributes = attributes.float(def.name, value);
        }
        for shape in [vec![], vec![7], vec![2, 19, 3], vec![130, 257]] {
            let mut x = random.f32(shape);
            x.elements_mut::<f32>()
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v *= if i % 3 == 0 { 20.0 } else { 1.0 });
            if matches!(name, "log" | "sqrt") {
                x.elements_mut::<f32>().iter_mut().for_each(|v| *v = v.abs());
            }
            if name == "exp" || name == "reciprocal" {
                x.elements_mut::<f32>().iter_mut().for_each(|v| *v += 0.5);
            }
            verify(op, &attributes, &[&x], TOLERANCE);
        }
        let x = random.f32([2, 19, 3, 5]);
        let mut positive = x.clone();
        positive.elements_mut::<f32>().iter_mut().for_each(|v| *v = v.abs() + 0.1);
        verify(op, &attributes, &[&positive.to_layout(&layout("nChw16c"))], TOLERANCE);
    }
    for dtype in [DType::I32, DType::I64, DType::I8, DType::F64, DType::F16] {
        for op in ["native.neg", "native.abs", "native.relu", "native.sign"] {
            verify(op, &attrs(), &[&random.tensor(dtype, [5, 7])], 0.0);
        }
    }
    verify("native.not", &attrs(), &[&random.tensor(DType::Bool, [5, 7])], 0.0);
    let mut x = random.f32([9]);
    x.elements_mut::<f32>()[3] = f32::NAN;
    verify("native.isnan", &attrs(), &[&x], 0.0);
}

#[test]
fn sigmoid_and_tanh_are_accurate_for_large_arguments() {
    let ends = [
        f32::NEG_INFINITY,
        -3e38,
        -104.0,
        -88.0,
        -87.3,
        -80.0,
        -40.5,
        -20.0,
        -1e-30,
        0.0,
        1e-30,
        88.0,
        3e38,
        f32::INFINITY,
    ];
    let x = Tensor::from_elements([14], &ends);
    let sigmoid: fn(f64) -> f64 = |x| 1.0 / (1.0 + (-x).exp());
    for (name, exact) in [("native.sigmoid", sigmoid), ("native.tanh", f64::tanh)] {
        let (_, y) = run(crate::fixture::ops().get(name).unwrap().name, &attrs(), &[&x], x.ty(), 1, None);
        for (x, y) in ends.iter().zip(y.elements::<f32>()) {
            let exact = exact(f64::from(*x));
            let error = (f64::from(*y) - exact).abs();
            // Far below zero the error of the exponential grows by 2e-9 with each doubling.
            let relative = if (-81.0..-30.0).contains(x) { 4e-7 } else { 2e-7 };
            assert!(error <= relative * exact.abs() + 2e-38, "{name} of {x} is {y}, not {exact}");
        }
    }
}

/// Pairs of shapes that broadcast.
const PAIRS: &[(&[usize], &[usize])] = &[
    (&[3, 4], &[3, 4]),
    (&[5, 6], &[]),
    (&[], &[5, 6]),
    (&[2, 3, 40], &[40]),
    (&[40], &[2, 3, 40]),
    (&[3, 1], &[1, 5]),
    (&[2, 1, 7], &[3, 1]),
    (&[2, 5, 6, 7], &[1, 5, 1, 1]),
    (&[130, 300], &[300]),
    (&[130, 300], &[130, 1]),
    (&[64, 17, 40], &[17, 1]),
    (&[1, 1, 1, 1], &[2, 3]),
];

#[test]
fn binary_ops_agree_with_the_reference() {
    let mut random = Random::new(3);
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "min",
        "max",
        "equal",
        "greater",
        "less",
        "greater-equal",
        "less-equal",
    ] {
        let op = crate::fixture::ops().get(&format!("native.{name}")).unwrap().name;
        for &(left, right) in PAIRS {
            for dtype in [DType::F32, DType::I64, DType::I32, DType::F64] {
                if name == "pow" && !dtype.is_float() {
                    continue;
                }
                let (mut a, mut b) = (random.tensor(dtype, left), random.tensor(dtype, right));
                if name == "div" || name == "pow" {
                    let away = |t: &Tensor| t.to_f64().iter().map(|v| v.abs() + 1.0).collect::<Vec<_>>();
                    a = Tensor::from_f64(dtype, left, &away(&a));
                    b = Tensor::from_f64(dtype, right, &away(&b));
                }
                verify(op, &attrs(), &[&a, &b], TOLERANCE);
            }
        }
        for blocked in ["nChw16c", "nChw8c", "nhwc"] {
            let a = random.f32([2, 19, 5, 6]).to_layout(&layout(blocked));
            for other in [[2, 19, 5, 6], [1, 19, 1, 1], [2, 19, 1, 1]] {
                let mut b = random.f32(other);
                b.elements_mut::<f32>().iter_mut().for_each(|v| *v = v.abs() + 0.5);
                let b = b.to_layout(&layout(blocked));
                if name != "pow" {
                    verify(op, &attrs(), &[&a, &b], TOLERANCE);
                    verify(op, &attrs(), &[&b, &a], 1e-4);
                }
            }
            verify(op, &attrs(), &[&a, &Tensor::scalar(2.0_f32)], TOLERANCE);
        }
    }
    for name in ["bit-and", "bit-or", "bit-xor", "shift-left", "shift-right", "mod"] {
        let op = crate::fixture::ops().get(&format!("native.{name}")).unwrap();
        for &(left, right) in PAIRS {
            for dtype in
                [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64]
            {
                let attrs = complete(op.name, attrs());
                verify(
                    op.name,
                    &attrs,
                    &[&random.tensor(dtype, left), &random.tensor(dtype, right)],
                    TOLERANCE,
                );
            }
        }
    }
    for name in ["native.and", "native.or", "native.xor", "native.equal"] {
        for &(left, right) in PAIRS {
            verify(
                name,
                &attrs(),
                &[&random.tensor(DType::Bool, left), &random.tensor(DType::Bool, right)],
                0.0,
            );
        }
    }
    for (dtype, fmod) in [(DType::I64, 0), (DType::I32, 1), (DType::F32, 1)] {
        let mut b = random.tensor(dtype, [5, 7]);
        let values: Vec<f64> = b.to_f64().iter().map(|v| if v.abs() < 0.1 { 3.0 } else { *v }).collect();
        b = Tensor::from_f64(dtype, [5, 7], &values);
        verify("native.mod", &attrs().int("fmod", fmod), &[&random.tensor(dtype, [5, 7]), &b], TOLERANCE);
    }
}

#[test]
fn maps_agree_with_the_reference() {
    let mut random = Random::new(4);
    for name in ["plain", "nChw16c", "nChw8c", "nhwc"] {
        for shape in [[2, 19, 5, 6], [1, 32, 28, 28]] {
            let whole = |random: &mut Random| random.f32(shape).to_layout(&layout(name));
            let channel = random.f32([1, shape[1], 1, 1]).to_layout(&layout(name));
            let x = whole(&mut random);
            let other = whole(&mut random);
            let chain = attrs().with("post", post(&["mul", "add", "gelu", "rsub", "clip", "max"]));
            let scalar = Tensor::scalar(0.25_f32);
            verify("native.map", &chain, &[&x, &channel, &other, &channel, &scalar], TOLERANCE);
            verify("native.map", &attrs().with("post", post(&["sigmoid"])), &[&x], TOLERANCE);
        }
    }
    let x = random.f32([3, 5, 700]);
    let chain = attrs().with("post", post(&["add", "rdiv", "tanh", "mul", "exp"]));
    let operands = [&random.f32([700]), &random.f32([5, 1]), &random.f32([3, 1, 700])];
    verify("native.map", &chain, &[&x, operands[0], operands[1], operands[2]], 1e-4);
}

#[test]
fn where_and_casts_agree_with_the_reference() {
    let mut random = Random::new(5);
    for dtype in [DType::F32, DType::I64, DType::U8, DType::F16, DType::Bool] {
        for (c, a, b) in [
            (vec![3, 4], vec![3, 4], vec![3, 4]),
            (vec![3, 1], vec![4], vec![]),
            (vec![1], vec![2, 3], vec![3]),
        ] {
            let operands = [random.tensor(DType::Bool, c), random.tensor(dtype, a), random.tensor(dtype, b)];
            verify("native.where", &attrs(), &[&operands[0], &operands[1], &operands[2]], 0.0);
        }
        // What is chosen of one element must not stand in the padding of channels.
        let blocked = |dtype| random.tensor(dtype, [2, 11, 3, 4]).to_layout(&layout("nChw8c"));
        let [condition, x] = [DType::Bool, dtype].map(blocked);
        let one = Tensor::from_f64(dtype, [1_usize; 0], &[1.0]);
        verify("native.where", &attrs(), &[&condition, &x, &one], 0.0);
        verify("native.where", &attrs(), &[&condition, &one, &x], 0.0);
    }
    for from in DType::ALL {
        for to in DType::ALL {
            let strange = |dtype: DType| dtype.is_complex() || dtype == DType::Text;
            if to != from && (strange(to) || strange(from)) {
                continue;
            }
            let x = random.tensor(from, [3, 50]);
            verify("native.cast", &attrs().with("to", Attr::DType(to)), &[&x], 0.0);
        }
    }
}

#[test]
fn rearrangements_agree_with_the_reference() {
    let mut random = Random::new(6);
    for dtype in [DType::F32, DType::I64, DType::Bool, DType::F16] {
        for (shape, perm) in [
            (vec![2, 3, 4, 5], vec![0, 2, 1, 3]),
            (vec![33, 47], vec![1, 0]),
            (vec![2, 70, 3, 40], vec![0, 3, 1, 2]),
            (vec![300, 200], vec![1, 0]),
            (vec![2, 3, 4], vec![2, 1, 0]),
            (vec![4, 1, 5], vec![0, 2, 1]),
            (vec![2, 128, 6, 64], vec![0, 2, 3, 1]),
        ] {
            let x = random.tensor(dtype, shape);
            verify("native.transpose", &attrs().ints("perm", &perm), &[&x], 0.0);
        }
        let x = random.tensor(dtype, [6, 5, 40]);
        for (starts, sizes, steps) in [
            ([0, 0, 0], [6, 5, 40], [1, 1, 1]),
            ([2, 0, 0], [3, 5, 40], [1, 1, 1]),
            ([1, 3, 7], [4, 2, 9], [1, 1, 1]),
            ([5, 0, 39], [3, 5, 20], [-2, 1, -2]),
            ([0, 1, 3], [2, 2, 5], [3, 2, 7]),
        ] {
            let attributes = attrs().ints("starts", &starts).ints("sizes", &sizes).ints("steps", &steps);
            let contract = verify("native.slice", &attributes, &[&x], 0.0);
            if starts == [2, 0, 0] {
                assert_eq!((contract.view_of, contract.view_offset), (Some(0), 400 * dtype.size()));
            }
        }
        verify("native.reshape", &attrs().ints("shape", &[30, 40]), &[&x], 0.0);
        let image = random.tensor(dtype, [2, 3, 4, 5]);
        let nhwc = image.to_layout(&"nhwc".parse().unwrap());
        for (image, perm) in [(&image, [0, 3, 1, 2]), (&nhwc, [0, 2, 3, 1])] {
            let contract = verify("native.transpose-view", &attrs().ints("perm", &perm), &[image], 0.0);
            assert_eq!((contract.view_of, contract.view_offset), (Some(0), 0));
        }
        for (from, to) in
            [(vec![1, 5, 1], vec![4, 5, 6]), (vec![3], vec![200, 100, 3]), (vec![2, 1], vec![2, 40])]
        {
            verify(
                "native.expand",
                &attrs().ints("shape", &to),
                &[&random.tensor(dtype, from.iter().map(|&n: &i64| n as usize).collect::<Vec<_>>())],
                0.0,
            );
        }
        let value = random.tensor(dtype, []);
        verify("native.pad", &attrs().ints("pads", &[1, 0, 2, 0, 3, 4]), &[&x, &value], 0.0);
        for axis in 0..3 {
            let mut shapes = [[3, 4, 5]; 3];
            shapes[1][axis] = 1;
            shapes[2][axis] = 9;
            let operands = shapes.map(|shape| random.tensor(dtype, shape));
            verify(
                "native.concat",
                &attrs().int("axis", axis as i64),
                &[&operands[0], &operands[1], &operands[2]],
                0.0,
            );
            let index = Tensor::from_elements([2, 3], &[0_i64, 2, -1, 1, -3, 0]);
            verify("native.gather", &attrs().int("axis", axis as i64), &[&operands[0], &index], 0.0);
            let index = Tensor::from_elements([2, 2, 3], &[0_i32, 2, -1, 1, -3, 0, 0, 1, 2, 2, 1, 0]);
            verify("native.gather-elements", &attrs().int("axis", axis as i64), &[&operands[0], &index], 0.0);
        }
    }
    for (name, channels) in [("nChw16c", [16, 48]), ("nChw8c", [8, 24]), ("nhwc", [3, 5])] {
        let operands = channels.map(|c| random.f32([2, c, 9, 7]).to_layout(&layout(name)));
        verify("native.concat", &attrs().int("axis", 1), &[&operands[0], &operands[1]], 0.0);
    }
    // Channels that do not fill blocks: the last ones alone, then others as well, and more than one part of the pixels.
    for (channels, [rows, columns]) in
        [([16, 5, 0], [9, 7]), ([16, 16, 7], [3, 3]), ([3, 24, 5], [9, 7]), ([40, 1, 35], [19, 17])]
    {
        for (name, block) in [("nChw16c", 16), ("nChw8c", 8)] {
            let whole = channels[..2].iter().all(|c| c % block == 0);
            for dtype in [DType::F32, DType::U8, DType::F16, DType::F64] {
                let operands =
                    channels.map(|c| random.tensor(dtype, [2, c, rows, columns]).to_layout(&layout(name)));
                let contract = verify("native.concat", &attrs().int("axis", 1), &operands.each_ref(), 0.0);
                assert_eq!(
                    contract.implementation,
                    if whole { "pieces" } else { "lanes" },
                    "{channels:?} {name}"
                );
            }
        }
    }
    for name in ["nhwc", "nChw16c", "nChw8c"] {
        let x = random.f32([2, 35, 9, 7]);
        let to = attrs().with("layout", Attr::Layout(layout(name)));
        verify("native.pack", &to, &[&x], 0.0);
        verify("native.unpack", &attrs(), &[&x.to_layout(&layout(name))], 0.0);
    }
}

#[test]
fn products_agree_with_the_reference() {
    let mut random = Random::new(7);
    let dims = [1, 2, 3, 5, 14, 15, 33, 40];
    for round in 0..40 {
        let mut pick = || dims[random.below(dims.len())];
        let (m, n, k) = (pick(), pick() + round, pick() * 3);
        let (a, b) = (random.f32([m, k]), random.f32([k, n]));
        let extras = [random.f32([n]), random.f32([m, n]), random.f32([m, 1])];
        let chain = attrs().with("post", post(&["add", "gelu", "mul", "add"]));
        let operands = [&extras[0], &extras[1], &extras[2]];
        verify("native.matmul", &chain, &[&a, &b, operands[0], operands[1], operands[2]], 1e-5);
        let packed = b.to_layout(&layout("Ba32b"));
        verify("native.matmul-packed", &chain, &[&a, &packed, operands[0], operands[1], operands[2]], 1e-5);
    }
    for (batch, m, n, k) in
        [(1, 2, 2, 2), (1, 2, 2, 0), (2, 7, 70, 30), (3, 67, 96, 66), (1, 401, 34, 140), (1, 197, 640, 1400)]
    {
        let (a, b) = (random.f32([batch, m, k]), random.f32([k, n]));
        let extras = [random.f32([n]), random.f32([batch, m, n]), random.f32([m, 1])];
        let definition = crate::fixture::ops().get("strassen-weights").unwrap();
        let ty = definition.result(&attrs(), &[b.ty()]).unwrap();
        let sums = definition.evaluate(&attrs(), &[&b], &ty);
        for name in ["Cab16c", "Cab8c"] {
            let u = sums.to_layout(&layout(name));
            let chain = attrs().with("post", post(&["add", "gelu", "mul", "add"]));
            let operands = [&a, &u, &extras[0], &extras[1], &extras[2]];
            // Sums of sums lose up to one digit more than plain sums.
            verify("native.matmul-strassen", &chain, &operands, 1e-3);
            let contract =
                verify("native.matmul-strassen", &attrs().with("post", post(&[])), &[&a, &u], 1e-3);
            let wide = name == "Cab16c" && Isa::planned() != Isa::Avx512;
            assert_eq!(contract.implementation == "reference", wide, "{name}");
        }
    }
    let none = attrs().with("post", post(&[]));
    for (a, b) in [
        (vec![2, 3, 4, 5], vec![2, 3, 5, 7]),
        (vec![3, 40, 5], vec![5, 70]),
        (vec![3, 1, 4, 5], vec![2, 5, 33]),
        (vec![4, 5], vec![6, 5, 33]),
        (vec![2, 1, 50, 30], vec![2, 2, 30, 40]),
    ] {
        verify("native.matmul", &none, &[&random.f32(a), &random.f32(b)], 1e-5);
    }
    // Several bands of rows, groups of panels and blocks of the inner dimension, with rows of the left operand that share
    // places of a cache, and an operand of the last step in place.
    for (m, k, n) in [(150, 1024, 300), (70, 2048, 161), (333, 128, 96)] {
        let (a, b) = (random.f32([m, k]), random.f32([k, n]));
        let chain = attrs().with("post", post(&["add", "relu", "mul"]));
        let extras = [random.f32([m, n]), random.f32([n])];
        // The worst of 45,000 sums of up to 2,048 products.
        verify("native.matmul", &chain, &[&a, &b, &extras[0], &extras[1]], 4e-4);
        let panels = b.to_layout(&layout("Ba32b"));
        verify("native.matmul-packed", &chain, &[&a, &panels, &extras[0], &extras[1]], 4e-4);
    }
    let deep = [random.f32([37, 2500]), random.f32([2500, 65])];
    let bias = random.f32([65]);
    let chain = attrs().with("post", post(&["add", "relu"]));
    verify("native.matmul", &chain, &[&deep[0], &deep[1], &bias], 1e-4);
    verify("native.matmul-packed", &chain, &[&deep[0], &deep[1].to_layout(&layout("Ba32b")), &bias], 1e-4);
    let batched = [random.f32([2, 3, 20, 30]), random.f32([30, 50]), random.f32([3, 1, 50])];
    let packed = batched[1].to_layout(&layout("Ba32b"));
    verify(
        "native.matmul-packed",
        &attrs().with("post", post(&["mul"])),
        &[&batched[0], &packed, &batched[2]],
        1e-5,
    );
    verify(
        "native.matmul",
        &none,
        &[&random.tensor(DType::I64, [3, 4]), &random.tensor(DType::I64, [4, 5])],
        0.0,
    );
}

#[test]
fn softmaxes_agree_with_the_reference() {
    let mut random = Random::new(8);
    for op in ["native.softmax", "native.log-softmax"] {
        for shape in [vec![7], vec![3, 17, 5], vec![2, 12, 64, 50], vec![40, 1000], vec![2, 3, 40, 33]] {
            for axis in 0..shape.len() {
                verify(op, &attrs().int("axis", axis as i64), &[&random.f32(shape.clone())], TOLERANCE);
            }
        }
    }
}

#[test]
fn masked_elements_of_a_softmax_have_no_share() {
    // Subnormal shares would make later products slow.
    for (shape, axis) in [([1, 40], 1), ([40, 1], 0), ([40, 5], 0)] {
        let count = shape.iter().product();
        let values: Vec<f32> =
            (0..count).map(|at| if at * 40 / count % 2 == 0 { 0.5 } else { -99.5 }).collect();
        let x = Tensor::from_elements(shape, &values);
        let attributes = attrs().int("axis", axis);
        verify("native.softmax", &attributes, &[&x], TOLERANCE);
        let softmax = crate::fixture::ops().get("native.softmax").unwrap().name;
        let (_, y) = run(softmax, &attributes, &[&x], x.ty(), 1, None);
        for (x, y) in values.iter().zip(y.elements::<f32>()) {
            assert_eq!(*x > 0.0, *y > 0.0, "{y:e} for {x}");
        }
    }
}

#[test]
fn normalisations_agree_with_the_reference() {
    let mut random = Random::new(9);
    for (shape, axis) in [(vec![4, 7], 1), (vec![2, 60, 768], 2), (vec![3, 5, 6, 7], 2), (vec![2, 3, 33], 0)]
    {
        let inner = shape[axis..].to_vec();
        let operands = [random.f32(shape), random.f32(inner.clone()), random.f32(inner)];
        let attributes = attrs().int("axis", axis as i64).float("epsilon", 1e-5);
        verify("native.layer-norm", &attributes, &[&operands[0], &operands[1], &operands[2]], 5e-6);
        verify("native.rms-norm", &attributes, &[&operands[0], &operands[1]], 5e-6);
    }
    for (length, added) in [
        (768, &[][..]),
        (768, &[&[2, 30, 768][..]]),
        (33, &[&[2, 1, 33], &[30, 33], &[33]]),
        (7, &[&[2, 30, 1]]),
    ] {
        let mut operands = vec![random.f32([50, length])];
        let position = |at: i64| (at * 37 + 11) % 100 - 50;
        operands.push(Tensor::from_elements([2, 30], &(0..60).map(position).collect::<Vec<_>>()));
        operands.extend([random.f32([length]), random.f32([length])]);
        operands.extend(added.iter().map(|shape| random.f32(shape.to_vec())));
        let operands: Vec<&Tensor> = operands.iter().collect();
        let contract = verify("native.embed", &attrs().float("epsilon", 1e-5), &operands, 5e-6);
        // An operand with one element for each row is left to the reference.
        let rows = added.iter().all(|shape| shape.ends_with(&[length]));
        assert_eq!(contract.implementation, if rows { "rows" } else { "reference" }, "{added:?}");
    }
    for shape in [vec![2, 5, 6, 7], vec![3, 20, 40, 40], vec![4, 6]] {
        let x = random.f32(shape.clone());
        let [scale, bias, mean, mut var] = [0; 4].map(|_| random.f32([shape[1]]));
        var.elements_mut::<f32>().iter_mut().for_each(|v| *v = v.abs() + 0.1);
        let attributes = attrs().float("epsilon", 1e-5);
        verify("native.batch-norm", &attributes, &[&x, &scale, &bias, &mean, &var], 5e-6);
        if shape.len() > 2 {
            verify("native.instance-norm", &attributes, &[&x, &scale, &bias], 5e-6);
        }
        for (size, beta) in [(5, 0.75), (3, 0.6), (4, 1.0)] {
            let attributes =
                attrs().int("size", size).float("alpha", 0.3).float("beta", beta).float("bias", 1.0);
            verify("native.lrn", &attributes, &[&x], 5e-6);
        }
    }
}

#[test]
fn reductions_agree_with_the_reference() {
    let mut random = Random::new(10);
    for name in ["sum", "mean", "max", "min", "prod"] {
        let op = crate::fixture::ops().get(&format!("native.reduce-{name}")).unwrap().name;
        for dtype in [DType::F32, DType::I64, DType::I32, DType::F64, DType::U8] {
            for (shape, axes) in [
                (vec![3, 4, 5], vec![2]),
                (vec![3, 4, 5], vec![0]),
                (vec![3, 4, 5], vec![1]),
                (vec![3, 4, 5], vec![0, 2]),
                (vec![3, 4, 5], vec![0, 1, 2]),
                (vec![2, 70, 3, 9], vec![2, 3]),
                (vec![2, 70, 3, 9], vec![0, 1]),
                (vec![6, 1, 4], vec![1]),
                (vec![40, 300, 7], vec![1]),
            ] {
                // Products of many integers overflow, and in debug builds the reference then panics.
                if name == "prod" && (shape != [3, 4, 5] || axes.len() > 1) {
                    continue;
                }
                for keepdims in [0, 1] {
                    verify(
                        op,
                        &attrs().ints("axes", &axes).int("keepdims", keepdims),
                        &[&random.tensor(dtype, shape.clone())],
                        2e-5,
                    );
                }
            }
        }
    }
    for name in ["nChw16c", "nChw8c", "nhwc"] {
        let x = random.f32([2, 35, 9, 7]).to_layout(&layout(name));
        verify("native.reduce-mean", &attrs().ints("axes", &[2, 3]).int("keepdims", 1), &[&x], 2e-6);
    }
    for op in ["native.arg-max", "native.arg-min"] {
        for dtype in [DType::F32, DType::I64, DType::U8] {
            for axis in 0..3 {
                for last in [0, 1] {
                    let attributes = attrs().int("axis", axis).int("keepdims", last).int("select-last", last);
                    verify(op, &attributes, &[&random.tensor(dtype, [5, 60, 7])], 0.0);
                }
            }
        }
    }
}

#[test]
fn extremes_of_rows_with_a_nan_are_nan() {
    let mut random = Random::new(26);
    for name in ["max", "min"] {
        let op = crate::fixture::ops().get(&format!("native.reduce-{name}")).unwrap().name;
        for length in [1, 2, 7, 8, 9, 16, 17, 40] {
            for at in [0, length / 2, length - 1] {
                let mut x = random.f32([5, length]);
                x.elements_mut::<f32>()[2 * length + at] = f32::NAN;
                verify(op, &attrs().ints("axes", &[1]).int("keepdims", 0), &[&x], 0.0);
            }
        }
    }
}

#[test]
fn empty_operands_are_harmless() {
    let mut random = Random::new(14);
    let (none, x) = (random.f32([0, 3]), random.f32([2, 0, 3]));
    verify("native.add", &attrs(), &[&none, &random.f32([3])], 0.0);
    verify("native.map", &attrs().with("post", post(&["relu", "add"])), &[&x, &random.f32([3])], 0.0);
    verify("native.transpose", &attrs().ints("perm", &[2, 0, 1]), &[&x], 0.0);
    verify("native.concat", &attrs().int("axis", 0), &[&none, &random.f32([2, 3]), &none], 0.0);
    verify("native.softmax", &attrs().int("axis", 1), &[&x], 0.0);
    verify("native.reduce-sum", &attrs().ints("axes", &[1]).int("keepdims", 1), &[&x], 0.0);
    let pixels = random.f32([2, 11, 0, 4]).to_layout(&layout("nChw8c"));
    verify("native.reduce-mean", &attrs().ints("axes", &[2, 3]).int("keepdims", 1), &[&pixels], 0.0);
    verify("native.cast", &attrs().with("to", Attr::DType(DType::I64)), &[&x], 0.0);
    verify("native.matmul", &attrs().with("post", post(&[])), &[&none, &random.f32([3, 4])], 0.0);
    verify(
        "native.gather",
        &attrs().int("axis", 0),
        &[&random.f32([3, 4]), &random.tensor(DType::I64, [0])],
        0.0,
    );
}

/// Compares the native kernel with the reference. That the kernel is not the reference itself is checked as well.
fn attends(attributes: &Attrs, operands: &[&Tensor]) {
    let contract = verify("native.attention", attributes, operands, 1e-5);
    assert!(contract.implementation.starts_with("tiles-"), "{attributes}: {}", contract.implementation);
}

#[test]
fn attention_agrees_with_the_reference() {
    let mut random = Random::new(11);
    for (b, h, m, n, d, e) in
        [(1, 2, 5, 7, 4, 6), (2, 3, 40, 33, 64, 64), (1, 1, 130, 200, 16, 40), (1, 12, 128, 128, 64, 64)]
    {
        let operands = [random.f32([b, h, m, d]), random.f32([b, h, n, d]), random.f32([b, h, n, e])];
        let attributes = attrs().float("scale", 0.25).ints("order", &[0, 1, 2, 3]).int("nan_as_zero", 0);
        let [q, k, v] = &operands;
        attends(&attributes, &[q, k, v]);
        for mask in [vec![m, n], vec![b, 1, 1, n], vec![h, 1, 1], vec![b, h, m, n]] {
            attends(&attributes, &[q, k, v, &random.f32(mask)]);
        }
    }
}

#[test]
fn attention_reads_heads_in_any_order_of_axes() {
    let mut random = Random::new(12);
    for (b, h, m, n, d, e) in [(2, 3, 5, 7, 4, 6), (2, 3, 130, 33, 64, 40), (1, 12, 128, 128, 64, 64)] {
        for order in [[0, 2, 1, 3], [1, 2, 0, 3], [2, 0, 1, 3]] {
            let mut stored = |sizes: [usize; 4]| {
                let mut shape = [0; 4];
                order.iter().zip(sizes).for_each(|(axis, size)| shape[*axis as usize] = size);
                random.f32(shape)
            };
            let operands = [stored([b, h, m, d]), stored([b, h, n, d]), stored([b, h, n, e])];
            let attributes = attrs().float("scale", 0.25).ints("order", &order).int("nan_as_zero", 0);
            attends(&attributes, &operands.each_ref());
            let [q, k, v] = &operands;
            attends(&attributes, &[q, k, v, &random.f32([b, 1, m, n])]);
        }
    }
}

#[test]
fn attention_gives_zeros_where_no_key_may_be_read() {
    let mut random = Random::new(13);
    let (b, h, m, n, d, e) = (2, 3, 20, 37, 8, 20);
    let operands = [random.f32([b, h, m, d]), random.f32([b, h, n, d]), random.f32([b, h, n, e])];
    let [q, k, v] = &operands;
    for special in [f64::NEG_INFINITY, f64::INFINITY, f64::NAN] {
        let mut mask = random.f32([m, n]).to_f64();
        mask[3 * n..4 * n].fill(special);
        mask[5 * n] = special;
        let mask = Tensor::from_f64(DType::F32, ovolo::tensor::Shape::from([m, n]), &mask);
        let attributes = attrs().float("scale", 0.25).ints("order", &[0, 1, 2, 3]).int("nan_as_zero", 1);
        attends(&attributes, &[q, k, v, &mask]);
    }
}

#[test]
fn squeeze_and_excite_agrees_with_the_reference() {
    let mut random = Random::new(31);
    // The shapes cover channels that do and do not fill blocks, fewer pixels than partial sums, several tasks, and no
    // elements.
    let shapes = [
        ([1, 5, 2, 3], 1),
        ([2, 32, 7, 7], 8),
        ([1, 40, 33, 20], 17),
        ([3, 16, 1, 1], 3),
        ([0, 8, 3, 3], 2),
        ([1, 8, 0, 3], 2),
        ([1, 8, 3, 3], 0),
    ];
    // The last gate maps the padding's zeros to minus infinity, and the slope of its logarithm increases the errors.
    for (gate, tolerance) in
        [(vec!["sigmoid"], TOLERANCE), (vec!["hard-sigmoid"], TOLERANCE), (vec!["abs", "log"], 1e-4)]
    {
        let attrs = attrs().with("inner", post(&["silu"])).with("gate", post(&gate));
        for (shape, hidden) in shapes {
            let channels = shape[1];
            for (x, w) in [("nChw16c", "Oihw16o"), ("nChw8c", "Oihw8o")] {
                let operands = [
                    random.f32(shape).to_layout(&layout(x)),
                    random.f32([hidden, channels, 1, 1]).to_layout(&layout(w)),
                    random.f32([hidden]),
                    random.f32([channels, hidden, 1, 1]).to_layout(&layout(w)),
                    random.f32([channels]),
                ];
                verify("native.squeeze-excite", &attrs, &operands.iter().collect::<Vec<_>>(), tolerance);
            }
        }
    }
}

#[test]
fn strassen_keeps_images_apart_and_errors_relative_to_the_larger_of_two_rows() {
    let mut random = Random::new(3);
    let (mut a, b) = (random.f32([2, 6, 64]), random.f32([64, 64]));
    let definition = crate::fixture::ops().get("strassen-weights").unwrap();
    let ty = definition.result(&attrs(), &[b.ty()]).unwrap();
    let u = definition.evaluate(&attrs(), &[&b], &ty).to_layout(&layout("Cab8c"));
    let chain = attrs().with("post", post(&[]));
    // Row 1 of the first image is summed with row 4. The second image has a row with a NaN.
    a.elements_mut::<f32>()[64..128].iter_mut().for_each(|value| *value *= 1e4);
    a.elements_mut::<f32>()[7 * 64] = f32::NAN;
    let output = TensorType::plain(DType::F32, [2, 6, 64]);
    let (_, y) = run("native.matmul-strassen", &chain, &[&a, &u], &output, 2, None);
    let plain = crate::fixture::ops().get("matmul").unwrap().evaluate(&chain, &[&a, &b], &output);
    let (got, want) = (y.to_f64(), plain.to_f64());
    for row in 0..12 {
        let row_of = |values: &[f64]| values[row * 64..(row + 1) * 64].to_vec();
        let (got, want) = (row_of(&got), row_of(&want));
        if row == 7 || row == 10 {
            assert!(got.iter().any(|value| value.is_nan()), "row {row}");
            continue;
        }
        let scale = if row == 1 || row == 4 { 1e4 } else { 1.0 };
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < 2e-5 * scale, "row {row}: {got}, not {want}");
        }
    }
}

#[test]
fn narrow_types_use_the_f32_kernels() {
    let mut random = Random::new(21);
    for dtype in [DType::BF16, DType::F16] {
        // The kernel rounds the result once, but the reference also rounds before the chain.
        let close = if dtype == DType::BF16 { 2e-2 } else { 3e-3 };
        let mut narrow = |shape: &[usize]| random.tensor(dtype, shape);
        let (x, w, b) = (narrow(&[1, 5, 9, 7]), narrow(&[6, 5, 3, 3]), narrow(&[6]));
        let attributes = attrs().ints("pads", &[1, 1, 1, 1]).with("post", post(&["relu"]));
        let contract = verify("native.conv", &complete("native.conv", attributes), &[&x, &w, &b], close);
        assert!(contract.implementation.starts_with("widened "), "{}", contract.implementation);
        let (a, m) = (narrow(&[3, 40]), narrow(&[40, 33]));
        let contract = verify("native.matmul", &complete("native.matmul", attrs()), &[&a, &m], close);
        assert!(contract.implementation.starts_with("widened "), "{}", contract.implementation);
        let pool = attrs().ints("kernel", &[2, 2]);
        let x = x.to_layout(&layout("nChw8c"));
        let contract = verify("native.avg-pool", &complete("native.avg-pool", pool), &[&x], close);
        assert!(contract.implementation.starts_with("widened "), "{}", contract.implementation);
    }
    let (x, y) = (random.tensor(DType::BF16, [2, 300]), random.tensor(DType::BF16, [300]));
    let contract = verify("native.map", &attrs().with("post", post(&["mul", "tanh"])), &[&x, &y], 2e-2);
    assert!(contract.implementation.starts_with("widened "), "{}", contract.implementation);
}

fn complete(op: &str, attributes: Attrs) -> Attrs {
    crate::fixture::ops().get(op).unwrap().complete(attributes)
}

#[test]
fn resizes_and_transposed_convolutions_agree_with_the_reference() {
    let mut random = Random::new(22);
    let text = |text: &str| Attr::Str(text.into());
    for name in ["plain", "nChw16c", "nChw8c", "nhwc"] {
        let x = random.f32([2, 19, 6, 5]).to_layout(&layout(name));
        for mode in ["nearest", "linear", "cubic"] {
            for (sizes, coordinates) in [
                ([12, 10], "half-pixel"),
                ([4, 7], "align-corners"),
                ([13, 1], "asymmetric"),
                ([1, 1], "pytorch-half-pixel"),
            ] {
                let attributes = attrs()
                    .ints("sizes", &sizes)
                    .with("mode", text(mode))
                    .with("coordinates", text(coordinates));
                verify("native.resize", &complete("native.resize", attributes), &[&x], 1e-5);
            }
        }
    }
    for (shape, weights, attributes) in [
        ([1, 3, 5, 7], [3, 4, 3, 3], attrs()),
        ([2, 4, 9, 8], [4, 3, 4, 4], attrs().ints("strides", &[2, 2]).ints("pads", &[1, 1, 1, 1])),
        ([1, 6, 4, 4], [6, 2, 2, 3], attrs().ints("strides", &[3, 2]).int("groups", 3)),
        ([1, 2, 3, 5], [2, 2, 3, 3], attrs().ints("dilations", &[2, 3]).ints("strides", &[2, 2])),
        (
            [1, 8, 20, 33],
            [8, 8, 3, 3],
            attrs().ints("strides", &[2, 2]).ints("output-padding", &[1, 1]).ints("pads", &[1, 0, 1, 2]),
        ),
        ([1, 1, 1, 1], [1, 1, 1, 1], attrs().ints("strides", &[4, 4]).ints("output-padding", &[3, 2])),
    ] {
        let groups = attributes.get("groups").map_or(1, |_| 3);
        let (x, w, b) = (random.f32(shape), random.f32(weights), random.f32([weights[1] * groups]));
        let attributes = complete("native.conv-transpose", attributes);
        verify("native.conv-transpose", &attributes, &[&x, &w, &b], 1e-5);
    }
}

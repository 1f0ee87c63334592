//! Compares kernels of oneDNN with their ops' reference evaluations.

use crate::check::{Random, verify};
use crate::need;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::backend::{Call, Contract};
use ovolo::op::OpError;
use ovolo::tensor::{DType, Shape, Tensor, TensorType};

/// Sums reach some tens, and single precision keeps six digits of these.
const TOLERANCE: f64 = 1e-4;

fn layout(tensor: &Tensor, name: &str) -> Tensor {
    tensor.to_layout(&name.parse().unwrap())
}

fn step(op: &'static str) -> Step {
    Step { op: op.into(), parameters: Vec::new() }
}

fn complete(op: &str, attrs: Attrs) -> Attrs {
    crate::common::ops().get(op).unwrap().complete(attrs)
}

/// The backend's answer to a call.
fn ask(op: &'static str, attrs: &Attrs, inputs: &[&Tensor], threads: usize) -> Result<Contract, OpError> {
    let types: Vec<&TensorType> = inputs.iter().map(|input| input.ty()).collect();
    let op = crate::common::ops().get(op).unwrap();
    let output = op.result(attrs, &types)?;
    Call { op, attrs, inputs: &types, output: &output, threads }.contract()
}

/// Checks a call if the backend accepts it, and returns the implementation's name.
fn check(op: &'static str, attrs: &Attrs, inputs: &[&Tensor]) -> Option<String> {
    check_within(TOLERANCE, op, attrs, inputs)
}

/// The same with a tolerance.
fn check_within(tolerance: f64, op: &'static str, attrs: &Attrs, inputs: &[&Tensor]) -> Option<String> {
    for threads in [1, 2] {
        if let Err(why) = ask(op, attrs, inputs, threads) {
            assert!(!why.to_string().is_empty());
            return None;
        }
    }
    Some(verify(op, attrs, inputs, tolerance).implementation)
}

/// Checks a call; the implementation's name must start with `name`.
fn runs(op: &'static str, attrs: &Attrs, inputs: &[&Tensor], name: &str) {
    let types: Vec<String> = inputs.iter().map(|input| input.ty().to_string()).collect();
    match ask(op, attrs, inputs, 2) {
        Err(why) => panic!("{op}{attrs}({}): {why}", types.join(", ")),
        Ok(contract) => {
            let found = contract.implementation;
            assert!(found.starts_with(name), "{op}{attrs}({}): {found} instead of {name}", types.join(", "));
        }
    }
    assert!(check(op, attrs, inputs).is_some());
}

/// Whether the processor has AVX-512, for which oneDNN has most of its kernels.
fn wide() -> bool {
    need::avx512().is_met()
}

/// A convolution: images, channels, outputs, groups, size, kernel, padding, stride, dilation.
type Window = (usize, usize, usize, usize, [usize; 2], usize, [i64; 4], i64, i64);

const SHAPES: &[Window] = &[
    (1, 16, 32, 1, [8, 9], 3, [1, 1, 1, 1], 1, 1),
    (1, 17, 33, 1, [7, 5], 3, [1, 1, 1, 1], 1, 1),
    (1, 64, 96, 1, [9, 9], 1, [0, 0, 0, 0], 1, 1),
    (1, 24, 40, 1, [10, 7], 1, [0, 0, 0, 0], 2, 1),
    (2, 32, 64, 1, [8, 8], 3, [0, 1, 2, 1], 2, 1),
    (3, 16, 16, 1, [6, 6], 3, [1, 1, 1, 1], 1, 1),
    (1, 16, 48, 1, [12, 11], 3, [2, 2, 2, 2], 1, 2),
    (1, 3, 32, 1, [17, 15], 7, [3, 3, 3, 3], 2, 1),
    (1, 3, 20, 1, [12, 12], 3, [0, 0, 1, 1], 2, 1),
    (1, 32, 32, 32, [9, 8], 3, [1, 1, 1, 1], 1, 1),
    (1, 33, 33, 33, [9, 8], 5, [2, 2, 2, 2], 2, 1),
    (2, 48, 48, 48, [6, 6], 3, [1, 1, 1, 1], 1, 1),
    (1, 64, 64, 2, [6, 6], 3, [1, 1, 1, 1], 1, 1),
    (1, 32, 32, 8, [7, 7], 3, [1, 1, 1, 1], 1, 1),
    (1, 32, 32, 4, [7, 7], 3, [1, 1, 1, 1], 2, 1),
    (1, 12, 18, 3, [5, 5], 3, [1, 1, 1, 1], 1, 1),
];

/// Layouts of the input, the weights and the result.
const LAYOUTS: &[[&str; 3]] = &[
    ["plain", "plain", "plain"],
    ["nChw16c", "OIhw16i16o", "nChw16c"],
    ["nChw8c", "OIhw8i8o", "nChw8c"],
    ["nhwc", "OIhw16i16o", "nhwc"],
    ["nhwc", "Ohwi16o", "nhwc"],
    ["nhwc", "Ohwi32o", "nhwc"],
    ["nhwc", "Ohwi48o", "nhwc"],
    ["nhwc", "Ohwi64o", "nhwc"],
    ["nChw16c", "Oihw16o", "nChw16c"],
    ["nChw8c", "Oihw8o", "nChw8c"],
    ["nhwc", "Oihw16o", "nhwc"],
    ["nhwc", "OIhw4i4o", "nhwc"],
    ["nhwc", "OIhw8i8o", "nhwc"],
    ["plain", "Ohwi16o", "nChw16c"],
    ["plain", "Ohwi8o", "nChw8c"],
];

fn operands(shape: &Window, layouts: &[&str; 3], random: &mut Random) -> (Attrs, [Tensor; 3]) {
    let (images, channels, outputs, groups, [height, width], kernel, pads, stride, dilation) = *shape;
    let attrs = Attrs::new()
        .int("groups", i64::try_from(groups).unwrap())
        .ints("pads", &pads)
        .ints("strides", &[stride, stride])
        .ints("dilations", &[dilation, dilation])
        .with("layout", Attr::Layout(layouts[2].parse().unwrap()));
    let x = random.f32([images, channels, height, width]);
    let w = random.f32([outputs, channels / groups, kernel, kernel]);
    (complete("onednn.conv", attrs), [layout(&x, layouts[0]), layout(&w, layouts[1]), random.f32([outputs])])
}

pub fn convolutions_agree_in_every_layout_that_has_a_kernel() {
    let random = &mut Random::new(1);
    let mut names: Vec<String> = Vec::new();
    for shape in SHAPES {
        for layouts in LAYOUTS {
            let (attrs, [x, w, b]) = operands(shape, layouts, random);
            if let Some(name) = check("onednn.conv", &attrs, &[&x, &w, &b]) {
                names.push(format!("{} {name}", layouts.join(" ")));
            }
        }
    }
    names.sort();
    names.dedup();
    println!("{names:#?}");
    if wide() {
        for part in ["brgconv:avx512", "brgconv_1x1:avx512", "jit:avx512", "jit_1x1:avx512", "jit_dw:avx512"]
        {
            assert!(
                names.iter().any(|name| name.contains(part)),
                "no convolution runs with {part}: {names:#?}"
            );
        }
        for layouts in LAYOUTS {
            let name = layouts.join(" ");
            assert!(names.iter().any(|known| known.starts_with(&name)), "none runs in {name}: {names:#?}");
        }
    }
}

pub fn chains_follow_a_convolution() {
    let random = &mut Random::new(2);
    let parameters = |values: &[f64]| values.iter().map(|value| ovolo::attr::Float(*value)).collect();
    let clip = Step { op: "clip".into(), parameters: parameters(&[-0.5, 2.0]) };
    let leaky = Step { op: "leaky-relu".into(), parameters: parameters(&[0.1]) };
    let hard = Step { op: "hard-sigmoid".into(), parameters: parameters(&[0.2, 0.5]) };
    let elu = Step { op: "elu".into(), parameters: parameters(&[0.7]) };
    for shape in [&SHAPES[0], &SHAPES[1], &SHAPES[2], &SHAPES[9], &SHAPES[10]] {
        for layouts in LAYOUTS {
            let (attrs, [x, w, b]) = operands(shape, layouts, random);
            let types = [x.ty(), w.ty(), b.ty()];
            let result = crate::common::ops().get("onednn.conv").unwrap().result(&attrs, &types).unwrap();
            let [n, c, h, v] = <[usize; 4]>::try_from(&result.shape[..]).unwrap();
            let whole = layout(&random.f32([n, c, h, v]), layouts[2]);
            let channel = layout(&random.f32([1, c, 1, 1]), layouts[2]);
            let one = random.f32([1]);
            let unary = ["relu", "sigmoid", "tanh", "silu", "gelu-tanh", "hard-swish", "mish", "abs"];
            let mut chains: Vec<(Vec<Step>, Vec<&Tensor>, i64)> =
                unary.iter().map(|op| (vec![step(op)], Vec::new(), 0)).collect();
            chains.extend(
                [clip.clone(), leaky.clone(), hard.clone(), elu.clone()].map(|s| (vec![s], vec![], 0)),
            );
            chains.push((vec![step("add"), step("relu")], vec![&whole], 0));
            chains.push((vec![step("add"), step("relu")], vec![&whole], 1));
            chains.push((vec![step("relu"), step("add")], vec![&whole], 1));
            chains.push((vec![step("mul"), clip.clone(), step("add")], vec![&channel, &whole], 0));
            chains.push((vec![step("mul"), step("add"), step("silu")], vec![&channel, &whole], 2));
            chains.push((vec![step("rsub"), step("max")], vec![&whole, &one], 0));
            let mut taken = 0;
            for (steps, extras, sum) in chains {
                let attrs = attrs.clone().with("post", Attr::Post(steps)).int("sum", sum);
                let mut inputs = vec![&x, &w, &b];
                inputs.extend(extras);
                if let Ok(contract) = ask("onednn.conv", &attrs, &inputs, 2) {
                    assert_eq!(contract.alias, usize::try_from(sum - 1).ok().map(|extra| 3 + extra));
                }
                taken += usize::from(check("onednn.conv", &attrs, &inputs).is_some());
            }
            let plain = ask("onednn.conv", &attrs, &[&x, &w, &b], 2).is_ok();
            assert!(!plain || taken >= 12, "{layouts:?} {shape:?}: {taken} chains accepted");
        }
    }
}

pub fn products_agree() {
    let random = &mut Random::new(3);
    let mut packed = Vec::new();
    for (a, n) in [
        (vec![1, 64], 128),
        (vec![5, 33], 47),
        (vec![49, 512], 96),
        (vec![2, 9, 48], 64),
        (vec![128, 40], 256),
        (vec![3, 16], 17),
        (vec![1, 1000], 1000),
    ] {
        let k = *a.last().unwrap();
        let mut result = a.clone();
        *result.last_mut().unwrap() = n;
        let (left, right) = (random.f32(a), random.f32([k, n]));
        let (row, whole, one) = (random.f32([n]), random.f32(result), random.f32([1]));
        let chains: Vec<(Vec<Step>, Vec<&Tensor>)> = vec![
            (vec![], vec![]),
            (vec![step("add")], vec![&row]),
            (vec![step("add"), step("silu")], vec![&row]),
            (vec![step("add"), step("add"), step("relu")], vec![&row, &whole]),
            (vec![step("mul"), step("add")], vec![&one, &whole]),
        ];
        for (steps, extras) in chains {
            for name in ["plain", "BA16a64b", "BA16a48b", "BA16a32b", "BA16a16b"] {
                let op = if name == "plain" { "onednn.matmul" } else { "onednn.matmul-packed" };
                let attrs = complete(op, Attrs::new().with("post", Attr::Post(steps.clone())));
                let right = layout(&right, name);
                let mut inputs = vec![&left, &right];
                inputs.extend(&extras);
                match check(op, &attrs, &inputs) {
                    Some(_) => packed.push(name),
                    None => assert!(name != "plain", "{:?}", ask(op, &attrs, &inputs, 2)),
                }
            }
        }
    }
    for name in ["BA16a64b", "BA16a48b", "BA16a32b", "BA16a16b"] {
        println!("{name}: {}", packed.iter().filter(|known| **known == name).count());
        assert!(!wide() || packed.contains(&name), "no product takes {name}");
    }
    let (a, b) = (random.f32([2, 3, 7, 16]), random.f32([2, 3, 16, 9]));
    runs("onednn.matmul", &complete("onednn.matmul", Attrs::new()), &[&a, &b], "");
}

/// Returns bytes near the ends of their range, whose sums of many products need more bits than f32 has.
fn extremes(random: &mut Random, dtype: DType, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let top = if dtype == DType::U8 { 255.0 } else { 127.0 };
    let values: Vec<f64> =
        (0..shape.count()).map(|_| top - f64::from(u8::from(random.below(8) == 0))).collect();
    Tensor::from_f64(dtype, shape, &values)
}

pub fn sums_of_bytes_are_exact() {
    type Draw = fn(&mut Random, DType, Shape) -> Tensor;
    let random = &mut Random::new(11);
    let mut names: Vec<String> = Vec::new();
    let draws: [Draw; 2] = [|random, dtype, shape| random.tensor(dtype, shape), extremes];
    for (draw, dtype) in draws.iter().flat_map(|draw| [(draw, DType::U8), (draw, DType::I8)]) {
        let window = [
            (1, 64, 64, 1, 9, [0, 0, 0, 0], 1, 1),
            (1, 128, 64, 1, 7, [0, 0, 0, 0], 1, 1),
            (1, 8, 48, 1, 4, [0, 0, 0, 0], 1, 1),
            (2, 96, 24, 1, 7, [0, 0, 0, 0], 1, 1),
            (1, 512, 48, 3, 5, [1, 1, 1, 1], 1, 1),
            (1, 128, 32, 3, 8, [0, 1, 2, 1], 2, 1),
            (1, 32, 96, 3, 9, [2, 2, 2, 2], 1, 2),
            (1, 3, 64, 7, 21, [3, 3, 3, 3], 2, 1),
            (1, 20, 16, 5, 9, [2, 2, 2, 2], 1, 1),
        ];
        for (images, channels, outputs, kernel, size, pads, stride, dilation) in window {
            let x = draw(random, dtype, [images, channels, size, size].into());
            let w = draw(random, DType::I8, [outputs, channels, kernel, kernel].into());
            let attrs = Attrs::new().ints("pads", &pads).ints("strides", &[stride, stride]);
            let attrs = complete("onednn.conv-integer", attrs.ints("dilations", &[dilation, dilation]));
            let x = layout(&x, "nhwc");
            for blocks in ["AcdB16b64a4b", "AcdB16b32a4b", "AcdB64a4b", "AcdB48a4b", "AcdB32a4b", "AcdB16a4b"]
            {
                let w = layout(&w, blocks);
                if let Some(found) = check_within(0.0, "onednn.conv-integer", &attrs, &[&x, &w]) {
                    names.push(format!("{dtype} {blocks} {found}"));
                }
            }
        }
        for (rows, depth, columns) in [(1, 64, 64), (7, 1030, 200), (128, 768, 768)] {
            let a = draw(random, dtype, [rows, depth].into());
            let b = layout(&draw(random, DType::I8, [depth, columns].into()), "BA16a64b4a");
            let attrs = complete("onednn.matmul-integer", Attrs::new());
            if let Some(found) = check_within(0.0, "onednn.matmul-integer", &attrs, &[&a, &b]) {
                names.push(format!("{dtype} matmul {found}"));
            }
        }
    }
    names.sort();
    names.dedup();
    println!("{names:#?}");
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    if need::vnni().is_met() {
        for part in ["AcdB64a4b brgconv", "AcdB48a4b brgconv", "AcdB32a4b brgconv", "u8 matmul brg:"] {
            assert!(has(part), "no sums by {part}: {names:#?}");
        }
    }
    if need::amx().is_met() {
        for part in ["AcdB16b64a4b brgconv_1x1", "AcdB16b32a4b brgconv", "amx"] {
            assert!(has(part), "no sums by {part}: {names:#?}");
        }
    }
    assert!(names.iter().all(|name| name.contains("vnni") || name.contains("amx")), "{names:#?}");
    assert!(!names.iter().any(|name| name.starts_with("i8") && name.contains("vnni")), "{names:#?}");
}

pub fn pools_agree() {
    let random = &mut Random::new(4);
    let x = random.f32([1, 20, 13, 11]);
    let many = random.f32([3, 20, 13, 11]);
    for name in ["plain", "nChw16c", "nChw8c", "nhwc"] {
        // Without AVX-512 some layouts have only generic code.
        if !wide() && name != "nChw8c" {
            continue;
        }
        for x in [&x, &many] {
            let x = layout(x, name);
            for (kernel, stride, pads) in
                [(2, 2, [0, 0, 0, 0]), (3, 2, [1, 1, 1, 1]), (3, 1, [0, 1, 1, 0]), (3, 2, [0, 0, 1, 1])]
            {
                let attrs = Attrs::new()
                    .ints("kernel", &[kernel; 2])
                    .ints("strides", &[stride; 2])
                    .ints("pads", &pads);
                runs("onednn.max-pool", &complete("onednn.max-pool", attrs.clone()), &[&x], "jit");
                for counted in [0, 1] {
                    let attrs = complete("onednn.avg-pool", attrs.clone().int("count-include-pad", counted));
                    runs("onednn.avg-pool", &attrs, &[&x], "jit");
                }
            }
        }
    }
}

pub fn rows_and_elements_agree() {
    let random = &mut Random::new(5);
    for shape in [vec![7, 33], vec![2, 3, 128], vec![1, 1000]] {
        let axis = i64::try_from(shape.len()).unwrap() - 1;
        let width = *shape.last().unwrap();
        let x = random.f32(shape);
        for op in ["onednn.softmax", "onednn.log-softmax"] {
            runs(op, &Attrs::new().int("axis", axis), &[&x], "jit");
        }
        let (scale, shift) = (random.f32([width]), random.f32([width]));
        let attrs = complete("onednn.layer-norm", Attrs::new().int("axis", axis).float("epsilon", 1e-5));
        assert!(check("onednn.layer-norm", &attrs, &[&x, &scale, &shift]).is_some());
    }
    for name in ["plain", "nhwc", "nChw16c", "nChw8c"] {
        if !wide() && name == "nChw16c" {
            continue;
        }
        let x = layout(&random.f32([1, 32, 24, 23]), name);
        let y = layout(&random.f32([1, 32, 24, 23]), name);
        let c = layout(&random.f32([1, 32, 1, 1]), name);
        for (steps, extras) in [
            (vec![step("relu")], vec![]),
            (vec![step("add"), step("relu")], vec![&y]),
            (vec![step("sigmoid")], vec![]),
        ] {
            let attrs = complete("onednn.map", Attrs::new().with("post", Attr::Post(steps)));
            let mut inputs = vec![&x];
            inputs.extend(extras);
            runs("onednn.map", &attrs, &inputs, "jit");
        }
        let attrs = complete("onednn.map", Attrs::new().with("post", Attr::Post(vec![step("mul")])));
        let taken = check("onednn.map", &attrs, &[&x, &c]).is_some();
        assert!(taken || name == "nChw8c", "{name}: a factor for each channel");
    }
}

pub fn attention_agrees() {
    let random = &mut Random::new(15);
    // Batches, heads, queries, keys, and the widths of a key and of a value.
    for [batches, heads, queries, keys, depth, width] in [
        [1, 4, 8, 8, 16, 16],
        [2, 3, 5, 7, 12, 20],
        [1, 5, 1, 33, 8, 8],
        // The scores of three heads are computed at a time, then those of two.
        [1, 5, 160, 128, 8, 4],
        // One head at a time.
        [1, 2, 300, 290, 4, 4],
    ] {
        for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3]] {
            let mut stored = |rows: usize, columns: usize| {
                let mut shape = vec![0; 4];
                for (axis, size) in order.into_iter().zip([batches, heads, rows, columns]) {
                    shape[axis] = size;
                }
                random.f32(shape)
            };
            let (q, k, v) = (stored(queries, depth), stored(keys, depth), stored(keys, width));
            let masks: [&[usize]; 4] =
                [&[keys], &[batches, 1, 1, keys], &[heads, queries, keys], &[batches, heads, queries, 1]];
            let order: Vec<i64> = order.iter().map(|axis| i64::try_from(*axis).unwrap()).collect();
            for scale in [1.0, 0.3] {
                let attrs = Attrs::new().float("scale", scale).ints("order", &order);
                let attrs = complete("onednn.attention", attrs);
                runs("onednn.attention", &attrs, &[&q, &k, &v], "partitions:");
                for mask in masks {
                    let mask = random.f32(mask);
                    runs("onednn.attention", &attrs, &[&q, &k, &v, &mask], "partitions:");
                }
            }
        }
    }
}

pub fn conversions_concatenations_and_reductions_agree() {
    let random = &mut Random::new(6);
    for shape in [[1, 16, 5, 7], [2, 20, 4, 4], [3, 64, 3, 9]] {
        let x = random.f32(shape);
        for name in ["nhwc", "nChw16c", "nChw8c"] {
            let attrs = Attrs::new().with("layout", Attr::Layout(name.parse().unwrap()));
            runs("onednn.pack", &attrs, &[&x], "");
            runs("onednn.unpack", &Attrs::new(), &[&layout(&x, name)], "");
            for other in ["nhwc", "nChw16c", "nChw8c"].into_iter().filter(|other| *other != name) {
                let attrs = Attrs::new().with("layout", Attr::Layout(other.parse().unwrap()));
                runs("onednn.reorder", &attrs, &[&layout(&x, name)], "");
            }
        }
        for name in ["plain", "nhwc", "nChw16c", "nChw8c"] {
            let x = layout(&x, name);
            let axes = Attrs::new().ints("axes", &[2, 3]).int("keepdims", 1);
            check("onednn.reduce-mean", &complete("onednn.reduce-mean", axes), &[&x]);
        }
    }
    for name in ["plain", "nhwc", "nChw16c"] {
        let [a, b] = [layout(&random.f32([1, 16, 5, 5]), name), layout(&random.f32([1, 32, 5, 5]), name)];
        runs("onednn.concat", &Attrs::new().int("axis", 1), &[&a, &b], "");
    }
    let x = random.f32([6, 40, 30]);
    let mut taken = 0;
    for op in ["sum", "mean", "max", "min", "prod"] {
        let op = crate::common::ops().get(&format!("onednn.reduce-{op}")).unwrap().name;
        for (axes, keep) in [(&[2_i64][..], 1), (&[1, 2], 0), (&[0], 1)] {
            let attrs = complete(op, Attrs::new().ints("axes", axes).int("keepdims", keep));
            taken += usize::from(check(op, &attrs, &[&x]).is_some());
        }
    }
    assert!(taken >= 5, "{taken} reductions");
}

pub fn reference_implementations_of_onednn_are_refused() {
    let random = &mut Random::new(7);
    // Its elementwise functions with f(0) != 0 have no kernels for padded layouts.
    let x = layout(&random.f32([1, 17, 4, 4]), "nChw16c");
    let attrs = complete("onednn.map", Attrs::new().with("post", Attr::Post(vec![step("sigmoid")])));
    let why = ask("onednn.map", &attrs, &[&x], 1).unwrap_err().to_string();
    assert_eq!(why, "oneDNN has only its reference implementation for this");
}

pub fn refusals_do_not_depend_on_earlier_kernels() {
    let random = &mut Random::new(11);
    let (x, b) = (layout(&random.f32([1, 1, 8, 8]), "nhwc"), random.f32([16]));
    let w = random.f32([16, 1, 3, 3]);
    let attrs = complete("onednn.conv", Attrs::new().with("layout", Attr::Layout("nhwc".parse().unwrap())));
    // With one channel, both layouts of the weights have the same strides.
    let asked = |name: &str| {
        ask("onednn.conv", &attrs, &[&x, &layout(&w, name), &b], 1).map(|one| one.implementation)
    };
    let why = Err(OpError::kernel(
        "the weights are in Oihw16o, a layout for several groups, but there is one group",
    ));
    assert_eq!(asked("Oihw16o"), why);
    assert!(!wide() || asked("Ohwi16o").is_ok());
    assert_eq!(asked("Oihw16o"), why);
}

/// Results have 8 bits of precision, and the reference also rounds before a chain.
const TOLERANCE_BF16: f64 = 2e-2;

/// Checks a call in bf16 if the backend accepts it, and returns the implementation's name.
fn check_bf16(op: &'static str, attrs: &Attrs, inputs: &[&Tensor]) -> Option<String> {
    ask(op, attrs, inputs, 2).ok()?;
    Some(verify(op, attrs, inputs, TOLERANCE_BF16).implementation)
}

pub fn kernels_in_bf16_agree() {
    let random = &mut Random::new(8);
    let mut bf16 = |shape: &[usize], name: &str| layout(&random.tensor(DType::BF16, shape), name);
    let mut names: Vec<String> = Vec::new();
    for shape in SHAPES {
        let (images, channels, outputs, groups, [height, width], kernel, pads, stride, dilation) = *shape;
        for layouts in [
            ["plain", "plain", "plain"],
            ["nChw16c", "OIhw8i16o2i", "nChw16c"],
            ["nhwc", "OIhw8i16o2i", "nhwc"],
            ["plain", "OhwI16o2i", "nChw16c"],
            ["nChw16c", "Oihw16o", "nChw16c"],
            ["nhwc", "Oihw16o", "nhwc"],
        ] {
            let attrs = Attrs::new()
                .int("groups", i64::try_from(groups).unwrap())
                .ints("pads", &pads)
                .ints("strides", &[stride, stride])
                .ints("dilations", &[dilation, dilation])
                .with("layout", Attr::Layout(layouts[2].parse().unwrap()));
            let attrs = complete("onednn.conv", attrs);
            let x = bf16(&[images, channels, height, width], layouts[0]);
            let w = bf16(&[outputs, channels / groups, kernel, kernel], layouts[1]);
            let b = bf16(&[outputs], "plain");
            if let Some(name) = check_bf16("onednn.conv", &attrs, &[&x, &w, &b]) {
                names.push(format!("{} {name}", layouts.join(" ")));
            }
        }
    }
    names.sort();
    names.dedup();
    println!("{names:#?}");
    for (width, kernel) in [(1, "brg"), (7, "brg"), (64, "brg")] {
        let (a, b, row) = (bf16(&[width, 96], "plain"), bf16(&[96, 48], "plain"), bf16(&[48], "plain"));
        let attrs = Attrs::new().with("post", Attr::Post(vec![step("add"), step("relu")]));
        let attrs = complete("onednn.matmul", attrs);
        let name = check_bf16("onednn.matmul", &attrs, &[&a, &b, &row]);
        assert!(!wide() || name.is_some_and(|name| name.contains("gemm") || name.contains(kernel)));
    }
    let x = bf16(&[1, 32, 12, 11], "nChw16c");
    let pool = complete("onednn.avg-pool", Attrs::new().ints("kernel", &[2, 2]));
    let relu = complete("onednn.map", Attrs::new().with("post", Attr::Post(vec![step("relu")])));
    let (soft, rows) = (Attrs::new().int("axis", 1), bf16(&[7, 33], "plain"));
    for (op, attrs, x) in [
        ("onednn.avg-pool", &pool, &x),
        ("onednn.map", &relu, &x),
        ("onednn.unpack", &Attrs::new(), &x),
        ("onednn.softmax", &soft, &rows),
    ] {
        let name = check_bf16(op, attrs, &[x]);
        assert!(!wide() || name.is_some(), "{op}: {:?}", ask(op, attrs, &[x], 2));
    }
    let (scale, shift) = (bf16(&[33], "plain"), bf16(&[33], "plain"));
    let attrs = complete("onednn.layer-norm", Attrs::new().int("axis", 1));
    let why = ask("onednn.layer-norm", &attrs, &[&rows, &scale, &shift], 1).unwrap_err().to_string();
    assert_eq!(why, "scale and shift must be f32");
    if wide() {
        for part in ["nChw16c OIhw8i16o2i", "nhwc OIhw8i16o2i", "plain OhwI16o2i", "nChw16c Oihw16o"] {
            assert!(names.iter().any(|name| name.starts_with(part)), "none in {part}: {names:#?}");
        }
    }
}

pub fn images_of_other_sizes_agree() {
    let random = &mut Random::new(9);
    let text = |text: &str| Attr::Str(text.into());
    for shape in [[1, 20, 7, 5], [3, 32, 4, 4]] {
        for name in ["plain", "nChw16c", "nChw8c", "nhwc"] {
            let x = layout(&random.f32(shape), name);
            let resize = |mode: &str, sizes: [i64; 2]| {
                complete("onednn.resize", Attrs::new().ints("sizes", &sizes).with("mode", text(mode)))
            };
            let [h, w] = [shape[2], shape[3]].map(|size| i64::try_from(size).unwrap());
            runs("onednn.resize", &resize("linear", [2 * h, 2 * w]), &[&x], "jit");
            runs("onednn.resize", &resize("linear", [3, 9]), &[&x], "jit");
            runs("onednn.resize", &resize("nearest", [2 * h, 3 * w]), &[&x], "jit");
            let why = ask("onednn.resize", &resize("cubic", [3, 3]), &[&x], 1).unwrap_err().to_string();
            assert_eq!(why, "oneDNN does not support mode \"cubic\"");
            let corners = resize("linear", [9, 9]).with("coordinates", text("align-corners"));
            let why = ask("onednn.resize", &corners, &[&x], 1).unwrap_err().to_string();
            assert_eq!(why, "oneDNN supports only half-pixel coordinates with the scale of the sizes");
        }
    }
    let mut names = Vec::new();
    for (x, w, stride, pads, added) in [
        ([1, 32, 7, 6], [32, 16, 2, 2], 2, [0, 0, 0, 0], 0),
        ([3, 24, 5, 5], [24, 20, 4, 4], 2, [1, 1, 1, 1], 0),
        ([1, 16, 6, 6], [16, 48, 3, 3], 1, [1, 1, 1, 1], 0),
        ([2, 16, 6, 6], [16, 3, 3, 3], 2, [1, 1, 1, 1], 1),
    ] {
        let attrs = Attrs::new()
            .ints("strides", &[stride, stride])
            .ints("pads", &pads)
            .ints("output-padding", &[added, added]);
        let attrs = complete("onednn.conv-transpose", attrs);
        let (image, weights, bias) = (random.f32(x), random.f32(w), random.f32([w[1]]));
        for layouts in [["plain", "plain"], ["nChw16c", "ABcd16a16b"], ["nhwc", "ABcd16a16b"]] {
            let operands = [&layout(&image, layouts[0]), &layout(&weights, layouts[1]), &bias];
            if let Some(name) = check("onednn.conv-transpose", &attrs, &operands) {
                names.push(format!("{} {name}", layouts.join(" ")));
            }
        }
    }
    names.sort();
    names.dedup();
    println!("{names:#?}");
    for part in ["plain plain", "nChw16c ABcd16a16b", "nhwc ABcd16a16b"] {
        assert!(!wide() || names.iter().any(|name| name.starts_with(part)), "none in {part}: {names:#?}");
    }
}

/// Layers: steps, sequences, features, directions and units.
const LAYERS: &[[usize; 5]] = &[
    [1, 1, 1, 1, 1],
    [5, 1, 16, 1, 32],
    [7, 3, 20, 1, 33],
    [4, 2, 9, 2, 10],
    [6, 5, 40, 2, 64],
    [3, 32, 17, 1, 48],
    [12, 1, 130, 2, 100],
];

pub fn recurrent_layers_agree() {
    let random = &mut Random::new(12);
    let mut accepted = 0;
    for [steps, batch, features, directions, hidden] in LAYERS.iter().copied() {
        for (op, gates) in [("onednn.lstm-layer", 4), ("onednn.rnn-layer", 1)] {
            let x = random.f32([steps, batch, features]);
            // Sums of such weights stay small, so no step multiplies the rounding of the one before.
            #[allow(clippy::cast_precision_loss)]
            let mut weights = |depth: usize| {
                let values = random.f32([directions, depth, gates, hidden]);
                let scaled: Vec<f64> =
                    values.to_f64().iter().map(|value| value / (depth as f64).sqrt()).collect();
                layout(&Tensor::from_f64(DType::F32, values.ty().shape.clone(), &scaled), "acDb32d")
            };
            let (w, r) = (weights(features), weights(hidden));
            let bias = random.f32([directions, gates, hidden]);
            let states = [0, 1].map(|_| random.f32([directions, batch, hidden]));
            let zeros = Tensor::zeros(states[0].ty().clone());
            for (reverse, [state, memory]) in
                [(0, [&states[0], &states[1]]), (1, [&states[0], &states[1]]), (0, [&zeros, &zeros])]
            {
                let mut inputs = vec![&x, &w, &r, &bias, state];
                inputs.extend((gates == 4).then_some(memory));
                let attrs = complete(op, Attrs::new().int("reverse", reverse));
                if wide() {
                    runs(op, &attrs, &inputs, "brgemm:avx512");
                    accepted += 1;
                } else {
                    accepted += usize::from(check(op, &attrs, &inputs).is_some());
                }
            }
        }
    }
    println!("{accepted} layers");
    let plain = random.f32([1, 8, 4, 8]);
    let (x, bias, state) = (random.f32([2, 3, 8]), random.f32([1, 4, 8]), random.f32([1, 3, 8]));
    let op = crate::common::ops().get("onednn.lstm-layer").unwrap();
    let types = [x.ty(), plain.ty(), plain.ty(), bias.ty(), state.ty(), state.ty()];
    let attrs = complete("onednn.lstm-layer", Attrs::new());
    assert!(op.result(&attrs, &types).is_err(), "weights in the default layout have no kernel");
}

//! Convolutions from levels to levels, held to the reference evaluation. Scales are powers of two, so that every way to
//! compute the levels is exact.

use crate::check::{Random, run, verify};
use crate::integer::{bytes, has_matrices, has_vnni};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};
use ovolo_native::Isa;

/// Images, channels, rows and columns; outputs and the rows and columns of a window; strides, dilations and pads.
type Case = ([usize; 4], [usize; 3], [i64; 2], [i64; 2], [i64; 4]);

fn layout(name: &str) -> Layout {
    name.parse().unwrap()
}

/// Returns floats that are small multiples of a power of two, in `nhwc`.
fn floats(random: &mut Random, shape: &[usize], unit: f64) -> Tensor {
    let values: Vec<f64> =
        (0..shape.iter().product()).map(|_| (random.below(200) as f64 - 100.0) * unit).collect();
    Tensor::from_f64(DType::F32, shape.to_vec(), &values).to_layout(&layout("nhwc"))
}

/// Returns powers of two for the outputs.
fn scales(random: &mut Random, outputs: usize) -> Tensor {
    let values: Vec<f64> = (0..outputs).map(|_| [0.25, 0.0625, 0.0078125][random.below(3)]).collect();
    Tensor::from_f64(DType::F32, vec![1, outputs, 1, 1], &values).to_layout(&layout("nhwc"))
}

/// Levels with a scale and a zero point, as the operands of a step.
fn levels(random: &mut Random, dtype: DType, shape: &[usize]) -> [Tensor; 3] {
    let one = |dtype: DType, value: f64| {
        Tensor::from_f64(dtype, vec![1, 1, 1, 1], &[value]).to_layout(&layout("nhwc"))
    };
    [bytes(random, dtype, shape).to_layout(&layout("nhwc")), one(DType::F32, 0.5), one(dtype, 9.0)]
}

/// Returns weights in the form of couples.
fn couples(w: &Tensor) -> Tensor {
    let definition = crate::fixture::ops().get("couple-weights").unwrap();
    let ty = definition.result(&Attrs::new(), &[w.ty()]).unwrap();
    definition.evaluate(&Attrs::new(), &[w], &ty)
}

/// Returns the implementation of `native.conv-requantize-coupled` on this processor.
fn coupled() -> &'static str {
    if Isa::running() >= Isa::Avx2 && !has_vnni() { "couples" } else { "reference" }
}

/// Verifies a convolution of couples, whose reference has the weights back, and that the definition gives the same.
fn check_couples(attrs: &Attrs, operands: &[&Tensor]) {
    let (w, ops) = (operands[1], crate::fixture::ops());
    let window: Vec<i64> = w.ty().shape[2..].iter().map(|size| *size as i64).collect();
    let (attrs, of_couples) = (attrs.clone(), attrs.clone().ints("kernel", &window));
    let made = couples(w);
    let mut operands = operands.to_vec();
    let logical = ops.get("conv-requantize").unwrap();
    let plain: Vec<Tensor> = operands.iter().map(|one| one.to_layout(&Layout::PLAIN)).collect();
    let plain: Vec<&Tensor> = plain.iter().collect();
    let types: Vec<&TensorType> = plain.iter().map(|one| one.ty()).collect();
    let attrs = logical.complete(attrs);
    let expected = logical.evaluate(&attrs, &plain, &logical.result(&attrs, &types).unwrap());
    operands[1] = &made;
    let contract = verify("native.conv-requantize-coupled", &of_couples, &operands, 0.0);
    assert_eq!(contract.implementation, coupled());
    let ty = expected.ty().with_layout(layout("nhwc"));
    let (_, found) = run("native.conv-requantize-coupled", &of_couples, &operands, &ty, 2, None);
    assert!(found.to_layout(&Layout::PLAIN).bytes() == expected.bytes(), "{:?}", w.ty());
}

/// Verifies a convolution with all types, zero points and several chains; `images` are the layouts of its images.
fn check(random: &mut Random, op: &'static str, weights: &str, images: &[&str], case: &Case, groups: usize) {
    let (image, [outputs, rows, columns], strides, dilations, pads) = case;
    let size = |axis: usize, window: usize| {
        let spanned = (window as i64 - 1) * dilations[axis] + 1;
        ((image[2 + axis] as i64 + pads[axis] + pads[axis + 2] - spanned) / strides[axis] + 1) as usize
    };
    let result = [image[0], *outputs, size(0, *rows), size(1, *columns)];
    let convolution = Attrs::new()
        .with("strides", Attr::Ints(strides.to_vec()))
        .with("dilations", Attr::Ints(dilations.to_vec()))
        .with("pads", Attr::Ints(pads.to_vec()))
        .with("groups", Attr::Int(groups as i64));
    let (pixels, quads) = (result[2] * result[3], rows * columns * (image[1] / groups).div_ceil(4));
    // Windows that are copied are filled up, so that any number of quads can be divided.
    let copied = (*rows, *columns, *strides) != (1, 1, [1, 1]) || pads.iter().any(|pad| *pad != 0);
    let divided = if copied && quads >= 16 { 16 } else { quads };
    let of_couples = op == "native.conv-requantize-coupled";
    let by_matrices = op == "native.conv-requantize" && pixels >= 8 && has_matrices(divided);
    let types = [DType::U8, DType::I8].into_iter().flat_map(|a| [(a, DType::U8), (a, DType::I8)]);
    for (number, (a, b)) in types.enumerate().filter(|(_, (_, b))| !of_couples || *b == DType::I8) {
        let x = bytes(random, a, image);
        let w = bytes(random, b, &[*outputs, image[1] / groups, *rows, *columns]).to_layout(&layout(weights));
        let (scale, bias) = (scales(random, *outputs), floats(random, &[1, *outputs, 1, 1], 0.5));
        let residual = floats(random, &result, 0.25);
        let [other, other_scale, other_zero] = levels(random, b, &result);
        let chains: [(&[&'static str], Vec<&Tensor>); 6] = [
            (&[], vec![]),
            (&["mul", "add"], vec![&scale, &bias]),
            (&["mul", "add", "relu"], vec![&scale, &bias]),
            (&["mul", "add", "add"], vec![&scale, &bias, &residual]),
            (&["mul", "sub"], vec![&scale, &other, &other_scale, &other_zero]),
            // A step that no kernel applies in registers.
            (&["mul", "abs", "add"], vec![&scale, &other, &other_scale, &other_zero]),
        ];
        let zero = Tensor::from_f64(b, vec![*outputs], &vec![0.0; *outputs]);
        for (n, (steps, extras)) in chains.into_iter().enumerate() {
            let q = [bytes(random, b, &[]), bytes(random, b, &[*outputs]), zero.clone()][n % 3].clone();
            // At the least zero point, totals of weights add nothing.
            let least = Tensor::from_f64(a, vec![], &[if a == DType::I8 { -128.0 } else { 0.0 }]);
            let p = if (number + n) % 2 == 0 { least } else { bytes(random, a, &[]) };
            let to = [DType::U8, DType::I8][n % 2];
            let (s, z) = (Tensor::scalar(2.0_f32), Tensor::from_f64(to, vec![], &[5.0]));
            let post = steps.iter().map(|op| Step { op: (*op).into(), parameters: Vec::new() }).collect();
            let attrs = convolution.clone().with("post", Attr::Post(post));
            for images in images {
                let x = if *images == "plain" { x.clone() } else { x.to_layout(&layout(images)) };
                let operands: Vec<&Tensor> =
                    [&x, &w, &p, &q, &s, &z].into_iter().chain(extras.clone()).collect();
                if of_couples {
                    check_couples(&attrs, &operands);
                    continue;
                }
                let contract = verify(op, &attrs, &operands, 0.0);
                let common = ["panels", "groups", "lanes"].contains(&contract.implementation.as_str());
                let matrices = ["matrices", "groups of matrices"].contains(&contract.implementation.as_str());
                assert!(common && !by_matrices || matrices && by_matrices, "{case:?}: {contract:?}");
            }
        }
    }
}

#[test]
fn convolutions_of_levels_are_exact() {
    let mut random = Random::new(17);
    let cases: [Case; 20] = [
        ([1, 1, 1, 1], [1, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        // For matrices: one of rows and one panel, an odd number of both, and several bands.
        ([1, 64, 3, 5], [10, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 96, 5, 7], [43, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([2, 32, 12, 13], [70, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([2, 20, 9, 11], [33, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([1, 16, 12, 20], [32, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 36, 17, 19], [20, 1, 1], [2, 3], [1, 1], [0, 0, 0, 0]),
        ([1, 5, 6, 5], [7, 1, 1], [2, 2], [1, 1], [1, 2, 3, 0]),
        ([1, 3, 23, 40], [16, 7, 7], [2, 2], [1, 1], [3, 3, 3, 3]),
        ([1, 8, 9, 9], [49, 3, 2], [1, 2], [2, 3], [2, 3, 0, 1]),
        ([3, 4, 4, 4], [48, 3, 3], [1, 1], [1, 1], [2, 2, 2, 2]),
        ([1, 32, 7, 7], [64, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        // Windows that matrices read where they lie: rows that tiles fill, that they do not fill, and that are so short that
        // tiles go on over their ends; strides, dilations, and images that are not padded.
        ([1, 32, 5, 28], [33, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([2, 64, 3, 35], [16, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([2, 64, 7, 7], [40, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([1, 32, 9, 8], [20, 1, 3], [1, 1], [1, 1], [0, 1, 0, 1]),
        ([1, 64, 9, 31], [33, 3, 3], [2, 2], [1, 1], [1, 1, 1, 1]),
        ([1, 64, 11, 19], [20, 3, 3], [1, 1], [2, 2], [1, 2, 0, 1]),
        ([2, 64, 9, 29], [48, 1, 1], [2, 2], [1, 1], [0, 0, 0, 0]),
        ([1, 32, 6, 17], [16, 2, 3], [1, 1], [1, 1], [0, 0, 0, 0]),
    ];
    for case in &cases {
        check(&mut random, "native.conv-requantize", "AcdB16a4b", &["nhwc", "plain"], case, 1);
        let (image, [outputs, ..], ..) = case;
        if image[1] % 4 == 0 && outputs % 8 == 0 {
            check(&mut random, "native.conv-requantize-coupled", "plain", &["nhwc"], case, 1);
        }
    }
}

/// With AVX2 alone, pairs of large weights are split, or, among couples, turned; quads with a pair of -128 are halved. Images have the greatest bytes, with which a sum of too many products would saturate.
#[test]
fn convolutions_of_small_and_of_large_weights_are_exact() {
    let mut random = Random::new(43);
    // One quad, some, and many; windows of several rows; and outputs that fill one panel and a half.
    let cases: [([usize; 4], [usize; 3]); 6] = [
        ([1, 16, 12, 13], [40, 1, 1]),
        ([1, 140, 11, 12], [8, 1, 1]),
        ([2, 1100, 7, 10], [24, 1, 1]),
        ([1, 24, 13, 12], [16, 3, 3]),
        ([1, 360, 12, 11], [8, 1, 3]),
        ([1, 4, 14, 13], [56, 3, 3]),
    ];
    for (image, [outputs, rows, columns]) in cases {
        for (most, large, least) in [(30, 0, 0), (60, 7, 0), (127, 50, 0), (40, 5, 1), (90, 30, 700)] {
            let values: Vec<f64> = (0..outputs * image[1] * rows * columns)
                .map(|_| {
                    let magnitude = if random.below(100) < large { 127 } else { random.below(most + 1) };
                    match random.below(2000) {
                        draw if draw < least => -128.0,
                        draw => magnitude as f64 * if draw % 2 == 0 { 1.0 } else { -1.0 },
                    }
                })
                .collect();
            let w = Tensor::from_f64(DType::I8, vec![outputs, image[1], rows, columns], &values);
            let packed = w.to_layout(&layout("AcdB16a4b"));
            let high: Vec<f64> = (0..image.iter().product())
                .map(|_| 255.0 - (random.below(4) * random.below(86)) as f64)
                .collect();
            let x = Tensor::from_f64(DType::U8, image.to_vec(), &high).to_layout(&layout("nhwc"));
            let (p, q) = (
                Tensor::from_f64(DType::U8, vec![], &[9.0]),
                Tensor::zeros(TensorType::plain(DType::I8, [])),
            );
            let (scale, bias) = (scales(&mut random, outputs), floats(&mut random, &[1, outputs, 1, 1], 0.5));
            let (s, z) = (Tensor::scalar(16.0_f32), Tensor::from_f64(DType::U8, vec![], &[128.0]));
            for (steps, extras) in
                [(&["mul", "add"][..], vec![&scale, &bias]), (&["mul", "abs"], vec![&scale])]
            {
                let post = steps.iter().map(|op| Step { op: (*op).into(), parameters: Vec::new() }).collect();
                let (down, right) = ((rows / 2) as i64, (columns / 2) as i64);
                let attrs = Attrs::new()
                    .with("strides", Attr::Ints(vec![1, 1]))
                    .with("dilations", Attr::Ints(vec![1, 1]))
                    .with("pads", Attr::Ints(vec![down, right, down, right]))
                    .with("groups", Attr::Int(1))
                    .with("post", Attr::Post(post));
                let mut operands: Vec<&Tensor> = [&x, &w, &p, &q, &s, &z].into_iter().chain(extras).collect();
                check_couples(&attrs, &operands);
                operands[1] = &packed;
                verify("native.conv-requantize", &attrs, &operands, 0.0);
            }
        }
    }
}

#[test]
fn convolutions_of_groups_of_levels_are_exact() {
    let mut random = Random::new(41);
    // Groups whose panels are one or two, padding, strides and dilations, and windows of one pixel.
    let cases: [(Case, usize); 9] = [
        (([2, 128, 5, 28], [96, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]), 2),
        (([1, 96, 9, 7], [48, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]), 3),
        (([1, 64, 9, 9], [96, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]), 2),
        (([1, 32, 9, 11], [32, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]), 2),
        (([2, 64, 7, 7], [64, 3, 3], [2, 2], [1, 1], [0, 1, 1, 0]), 2),
        (([1, 12, 12, 6], [48, 3, 2], [1, 2], [2, 1], [2, 0, 0, 1]), 3),
        (([1, 16, 10, 9], [64, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]), 2),
        (([1, 8, 10, 9], [32, 1, 1], [2, 3], [1, 1], [0, 0, 0, 0]), 2),
        (([1, 8, 9, 8], [96, 3, 3], [1, 1], [1, 1], [0, 0, 0, 0]), 2),
    ];
    for (case, groups) in &cases {
        check(&mut random, "native.conv-requantize", "AcdB16a4b", &["nhwc"], case, *groups);
        check(&mut random, "native.conv-requantize-coupled", "plain", &["nhwc"], case, *groups);
    }
}

/// A bound at the end of a chain becomes a bound of the levels if the level of its lower side is the least one. Bounds of both
/// kinds are tested, and a NaN, which always gets the least level.
#[test]
fn bounds_at_the_end_of_a_chain_are_those_of_the_definition() {
    let mut random = Random::new(23);
    let relu = || Step { op: "relu".into(), parameters: Vec::new() };
    let clip = |bounds: [f64; 2]| Step { op: "clip".into(), parameters: bounds.map(Float).to_vec() };
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let (outputs, result) = (20, [1, 20, 5, 7]);
    let x = bytes(&mut random, DType::U8, &[1, 8, 5, 7]).to_layout(&layout("nhwc"));
    let w = bytes(&mut random, DType::I8, &[outputs, 8, 1, 1]).to_layout(&layout("AcdB16a4b"));
    let (p, q) = (bytes(&mut random, DType::U8, &[]), bytes(&mut random, DType::I8, &[]));
    let attrs = Attrs::new()
        .with("strides", Attr::Ints(vec![1, 1]))
        .with("dilations", Attr::Ints(vec![1, 1]))
        .with("pads", Attr::Ints(vec![0; 4]))
        .with("groups", Attr::Int(1));
    let scale = scales(&mut random, outputs);
    let mut values: Vec<f64> =
        (0..result.iter().product()).map(|_| random.below(200) as f64 - 100.0).collect();
    values[17] = f64::NAN;
    let residual = Tensor::from_f64(DType::F32, result.to_vec(), &values).to_layout(&layout("nhwc"));
    let ends = [
        vec![relu()],
        vec![clip([0.0, 6.0])],
        vec![clip([-300.0, 11.5])],
        vec![clip([-4.5, 3.0])],
        vec![clip([2.0, 1000.0])],
        vec![relu(), clip([-7.0, 40.0])],
        vec![clip([0.0, 40.0]), relu()],
    ];
    for (to, zeros) in [(DType::U8, [0.0, 5.0, 255.0]), (DType::I8, [-128.0, 0.0, 127.0])] {
        for (end, zero, s) in ends.iter().flat_map(|end| zeros.map(|zero| (end, zero, [0.5_f32, 2.0]))) {
            let z = Tensor::from_f64(to, vec![], &[zero]);
            let post = [step("mul"), step("add")].into_iter().chain(end.iter().cloned()).collect();
            let attrs = attrs.clone().with("post", Attr::Post(post));
            for s in s {
                let s = Tensor::scalar(s);
                let operands = [&x, &w, &p, &q, &s, &z, &scale, &residual];
                let contract = verify("native.conv-requantize", &attrs, &operands, 0.0);
                assert_eq!(contract.implementation, "panels");
            }
        }
    }
}

/// Sums that are scaled and shifted by column become levels in a way of their own. An extra operand of zeros, for each pixel,
/// takes the way of other chains, by which the levels must be the same to the last one, for any scales.
#[test]
fn levels_of_scaled_sums_are_those_of_every_chain() {
    let mut random = Random::new(37);
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let by_column = |random: &mut Random, outputs: usize, unit: f64| {
        let values: Vec<f64> =
            (0..outputs).map(|_| (random.below(2_000_001) as f64 - 1e6) * 1e-6 * unit).collect();
        Tensor::from_f64(DType::F32, vec![1, outputs, 1, 1], &values).to_layout(&layout("nhwc"))
    };
    let attrs = Attrs::new().ints("strides", &[1, 1]).ints("dilations", &[1, 1]).ints("pads", &[0; 4]);
    // Whole vectors, vectors that share columns, and too few columns or rows for vectors.
    for (outputs, pixels) in
        [(64, [19, 23]), (24, [9, 11]), (41, [7, 5]), (7, [6, 6]), (32, [1, 3]), (16, [1, 2])]
    {
        let x = bytes(&mut random, DType::U8, &[1, 12, pixels[0], pixels[1]]).to_layout(&layout("nhwc"));
        let w = bytes(&mut random, DType::I8, &[outputs, 12, 1, 1]).to_layout(&layout("AcdB16a4b"));
        let (p, q) = (bytes(&mut random, DType::U8, &[]), Tensor::zeros(TensorType::plain(DType::I8, [])));
        let zeros = Tensor::zeros(TensorType::plain(DType::F32, [1, outputs, pixels[0], pixels[1]]));
        let zeros = zeros.to_layout(&layout("nhwc"));
        // Most levels within their bounds, most of them outside, numbers that fit into no integer, and quotients in the middle
        // between two levels.
        for (factors, terms, scale) in [
            (4e-3, 3.0, 0.0371),
            (4e-3, 30.0, 0.0371),
            (0.8, 500.0, 0.0123),
            (3e7, 2e30, 1e-3),
            (1.0, 0.0, 82.0),
            (1.0, 0.0, 94.0),
        ] {
            let mut factor = by_column(&mut random, outputs, factors);
            let term = by_column(&mut random, outputs, terms);
            if terms == 0.0 {
                let ones = vec![1.0; outputs];
                factor =
                    Tensor::from_f64(DType::F32, vec![1, outputs, 1, 1], &ones).to_layout(&layout("nhwc"));
            }
            let s = Tensor::scalar(scale as f32);
            for (to, zero) in [(DType::U8, 0.0), (DType::U8, 128.0), (DType::I8, -128.0), (DType::I8, 3.0)] {
                let z = Tensor::from_f64(to, vec![], &[zero]);
                for end in [None, Some([0.0, 1.7]), Some([-0.4, 0.9])] {
                    let clip = end.map(|end| Step { op: "clip".into(), parameters: end.map(Float).to_vec() });
                    let levels = |extra: &[&Tensor]| {
                        let adds = vec![step("add"); 1 + extra.len()];
                        let post = [step("mul")].into_iter().chain(adds).chain(clip.clone()).collect();
                        let attrs = attrs.clone().int("groups", 1).with("post", Attr::Post(post));
                        let mut operands = vec![&x, &w, &p, &q, &s, &z, &factor, &term];
                        operands.extend(extra);
                        let ty = TensorType::plain(to, [1, outputs, pixels[0], pixels[1]])
                            .with_layout(layout("nhwc"));
                        run("native.conv-requantize", &attrs, &operands, &ty, 1, None).1
                    };
                    let (own, other) = (levels(&[]), levels(&[&zeros]));
                    assert!(
                        own.bytes() == other.bytes(),
                        "{outputs} outputs, {factors}, {to}, {zero}, {end:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn depthwise_convolutions_of_levels_are_exact() {
    let mut random = Random::new(19);
    for channels in [1, 7, 16, 20, 32, 40, 70, 112] {
        let cases: [Case; 7] = [
            ([1, channels, 6, 21], [channels, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
            ([2, channels, 9, 20], [channels, 3, 3], [2, 2], [1, 1], [0, 1, 1, 0]),
            ([1, channels, 7, 7], [channels, 5, 5], [1, 1], [1, 1], [2, 2, 2, 2]),
            ([1, channels, 8, 19], [channels, 2, 3], [1, 2], [2, 2], [1, 2, 1, 2]),
            ([1, channels, 3, 2], [channels, 1, 7], [1, 1], [1, 1], [0, 3, 0, 3]),
            ([1, channels, 1, 13], [channels, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
            ([1, channels, 5, 70], [channels, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ];
        for case in &cases {
            check(&mut random, "native.conv-requantize-depthwise", "hwio", &["nhwc"], case, channels);
        }
    }
}

#[test]
fn maxima_of_levels_are_exact() {
    let mut random = Random::new(23);
    for dtype in [DType::U8, DType::I8] {
        for shape in [[2, 33, 9, 12], [1, 1, 5, 5], [1, 147, 4, 5]] {
            for name in ["nhwc", "plain"] {
                let x = bytes(&mut random, dtype, &shape);
                let x = if name == "plain" { x } else { x.to_layout(&layout(name)) };
                let attrs = Attrs::new()
                    .with("kernel", Attr::Ints(vec![3, 2]))
                    .with("strides", Attr::Ints(vec![2, 1]))
                    .with("pads", Attr::Ints(vec![1, 1, 1, 0]))
                    .with("dilations", Attr::Ints(vec![1, 1]));
                assert_eq!(verify("native.max-pool", &attrs, &[&x], 0.0).implementation, "windows");
            }
        }
    }
}

#[test]
fn a_convolution_without_channels_gives_the_levels_of_its_bias() {
    let mut random = Random::new(29);
    let nhwc = layout("nhwc");
    let x = Tensor::zeros(TensorType::plain(DType::U8, [1, 0, 4, 4])).to_layout(&nhwc);
    let w = Tensor::zeros(TensorType::plain(DType::I8, [3, 0, 2, 2])).to_layout(&layout("AcdB16a4b"));
    let (p, q) = (bytes(&mut random, DType::U8, &[]), bytes(&mut random, DType::I8, &[]));
    let (s, z) = (Tensor::scalar(0.5_f32), Tensor::from_f64(DType::U8, vec![], &[100.0]));
    let bias = floats(&mut random, &[1, 3, 1, 1], 0.25);
    let post = vec![Step { op: "add".into(), parameters: Vec::new() }];
    let attrs = Attrs::new()
        .ints("strides", &[1, 1])
        .ints("dilations", &[1, 1])
        .ints("pads", &[1, 0, 0, 0])
        .int("groups", 1)
        .with("post", Attr::Post(post));
    verify("native.conv-requantize", &attrs, &[&x, &w, &p, &q, &s, &z, &bias], 0.0);
}

#[test]
fn functions_of_bytes_are_looked_up_in_tables() {
    let mut random = Random::new(31);
    let types = [DType::U8, DType::I8];
    for (from, to) in types.into_iter().flat_map(|from| types.map(|to| (from, to))) {
        // Fewer elements than a table has, whole vectors, and vectors that are not whole.
        for (shape, implementation) in
            [(vec![2, 7, 5, 7], "steps"), (vec![1, 64, 8, 8], "table"), (vec![2, 33, 9, 13], "table")]
        {
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count)
                .map(|at| (at % 256) as f64 - if from == DType::I8 { 128.0 } else { 0.0 })
                .collect();
            let x = Tensor::from_f64(from, shape.clone(), &values);
            let point = Tensor::from_f64(DType::F32, vec![1, 1, 1, 1], &[17.0]);
            let [other, scale, zero] = levels(&mut random, to, &[1, 1, 1, 1]);
            let (s, z) = (Tensor::scalar(0.5_f32), Tensor::from_f64(to, vec![], &[3.0]));
            for name in ["plain", "nhwc"] {
                let to_layout = |tensor: &Tensor| tensor.to_layout(&layout(name));
                let (x, point, other) = (to_layout(&x), to_layout(&point), to_layout(&other));
                let (scale, zero) = (to_layout(&scale), to_layout(&zero));
                for steps in [["sub", "add", "relu"], ["sub", "mul", "abs"]] {
                    let post = steps.iter().map(|op| Step { op: (*op).into(), parameters: Vec::new() });
                    let attrs = Attrs::new().with("post", Attr::Post(post.collect()));
                    let operands = [&x, &s, &z, &point, &other, &scale, &zero];
                    let contract = verify("native.requantize", &attrs, &operands, 0.0);
                    assert_eq!(contract.implementation, implementation, "{from} {to} {shape:?} {name}");
                }
            }
        }
    }
}

/// Levels that are added to levels or multiplied by them become levels in a way of their own. An extra operand of zeros takes the way of other
/// chains, by which the levels must be the same to the last one, for any scales.
#[test]
fn sums_of_levels_are_those_of_every_chain() {
    let mut random = Random::new(43);
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let types = [DType::U8, DType::I8];
    let kinds =
        types.into_iter().flat_map(|x| types.map(|y| (x, y))).flat_map(|(x, y)| types.map(|to| (x, y, to)));
    for (n, (from, other, to)) in kinds.enumerate() {
        // The last shapes have enough results for a formula to be looked for.
        for shape in [[1, 64, 9, 7], [2, 33, 5, 3], [1, 5, 1, 3], [3, 16, 20, 20], [1, 67, 31, 29]] {
            let one = |dtype: DType, value: f64| Tensor::from_f64(dtype, vec![1, 1, 1, 1], &[value]);
            let x = bytes(&mut random, from, &shape);
            let y = bytes(&mut random, other, &shape);
            let zeros = Tensor::zeros(TensorType::plain(DType::F32, shape));
            // Levels of which some are bounds, quotients in the middle between two levels, and a point that is no integer.
            for (point, scales, scale) in
                [(17.0, [0.0213, 0.0377], 0.0341), (3.0, [0.5, 1.0], 1.0), (2.5, [0.03, 0.04], 0.05)]
            {
                let (point, own) = (one(DType::F32, point), one(DType::F32, scales[0]));
                let (scale_of_y, zero) = (one(DType::F32, scales[1]), one(other, 9.0));
                let s = Tensor::scalar(scale as f32);
                let z = Tensor::from_f64(to, vec![], &[if n % 2 == 0 { 0.0 } else { 4.0 }]);
                for combined in ["add", "mul"] {
                    let levels = |extra: &[&Tensor]| {
                        let adds = vec![step("add"); extra.len()];
                        let post = [step("sub"), step("mul"), step(combined)].into_iter();
                        let attrs = Attrs::new()
                            .with("post", Attr::Post(post.chain(adds).chain([step("relu")]).collect()));
                        let mut operands = vec![&x, &s, &z, &point, &own, &y, &scale_of_y, &zero];
                        operands.extend(extra);
                        run("native.requantize", &attrs, &operands, &TensorType::plain(to, shape), 1, None).1
                    };
                    let (own, other) = (levels(&[]), levels(&[&zeros]));
                    assert!(own.bytes() == other.bytes(), "{combined} {from} {to} {shape:?} {scale}");
                }
            }
        }
    }
}

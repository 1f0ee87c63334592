//! Kernels of integers, held to the reference evaluation: exactly where the results are integers.

use crate::check::{Random, assert_close, verify};
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::tensor::{DType, Tensor};
use ovolo_native::Isa;

/// Returns a tensor of all values of an 8-bit type, the largest and the smallest among its first ones.
pub(crate) fn bytes(random: &mut Random, dtype: DType, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let least = if dtype == DType::I8 { -128.0 } else { 0.0 };
    let mut value = |at: usize| match at {
        0 => 255.0,
        1 => 0.0,
        _ => random.below(256) as f64,
    };
    let values: Vec<f64> = (0..count).map(|at| value(at) + least).collect();
    Tensor::from_f64(dtype, shape.to_vec(), &values)
}

/// Returns whether the processor multiplies matrices of bytes, and does so for products with so many quads of the inner
/// dimension: at least 16, which can be divided into pieces of 8 to 16.
pub(crate) fn has_matrices(quads: usize) -> bool {
    let divided = quads >= 16 && (8..=16).any(|piece| quads.is_multiple_of(piece));
    divided && Isa::running() == Isa::Avx512 && has_vnni() && has_amx()
}

/// Returns whether the processor says that it has AMX for bytes.
#[cfg(target_arch = "x86_64")]
fn has_amx() -> bool {
    // Leaf 7, EDX: bit 24 is AMX-TILE, bit 25 AMX-INT8.
    std::arch::x86_64::__cpuid_count(7, 0).edx >> 24 & 0b11 == 0b11
}

#[cfg(not(target_arch = "x86_64"))]
fn has_amx() -> bool {
    false
}

#[test]
fn packed_products_of_all_bytes_are_exact() {
    let mut random = Random::new(7);
    for (a, b) in [DType::U8, DType::I8].into_iter().flat_map(|a| [(a, DType::U8), (a, DType::I8)]) {
        for (rows, depth, columns) in [
            (1, 1, 1),
            (1, 64, 48),
            (5, 33, 17),
            (13, 7, 16),
            (100, 130, 70),
            (2, 0, 3),
            (4, 12, 48),
            // With weights that are used as they are given: each number of rows, and quads that are no multiple of four.
            (1, 20, 17),
            (2, 36, 5),
            (3, 44, 33),
            (4, 28, 19),
            // For matrices: an odd number of them, and of panels.
            (37, 64, 48),
            (300, 132, 70),
            (530, 9, 33),
        ] {
            let x = bytes(&mut random, a, &[rows, depth]);
            let w = bytes(&mut random, b, &[depth, columns]).to_layout(&"BA16b4a".parse().unwrap());
            for (p, q) in [(vec![], vec![]), (vec![rows, 1], vec![columns]), (vec![], vec![1, columns])] {
                let (p, q) = (bytes(&mut random, a, &p), bytes(&mut random, b, &q));
                let contract = verify("native.matmul-integer-packed", &Attrs::new(), &[&x, &w, &p, &q], 0.0);
                let by_matrices = rows >= 8 && columns > 16 && has_matrices(depth.div_ceil(4));
                assert_eq!(contract.implementation, if by_matrices { "matrices" } else { "panels" });
            }
        }
    }
}

#[test]
fn panels_with_a_few_large_pairs_are_exact() {
    // Few enough for a list of corrections, among weights of which no pair saturates, and at every place of a quad.
    let mut random = Random::new(9);
    let (rows, depth, columns) = (6, 62, 32);
    for (large, b) in
        [([127.0, 127.0], DType::I8), ([-128.0, -128.0], DType::I8), ([255.0, 254.0], DType::U8)]
    {
        for places in [vec![], vec![0], vec![0, 7, 61 * 16 + 5], (0..12).map(|at| at * 83).collect()] {
            let zero = if b == DType::U8 { 128.0 } else { 0.0 };
            let mut weights: Vec<f64> =
                (0..depth * columns).map(|_| random.below(129) as f64 - 64.0 + zero).collect();
            for place in places {
                let (at, column) = (place / 16 / 2 * 2, place % 16);
                weights[at * columns + column] = large[0];
                weights[(at + 1) * columns + column] = large[1];
            }
            let w = Tensor::from_f64(b, vec![depth, columns], &weights);
            let w = w.to_layout(&"BA16b4a".parse().unwrap());
            let mut x = Tensor::from_f64(DType::U8, vec![rows, depth], &vec![255.0; rows * depth]);
            for (at, x) in x.elements_mut::<u8>().iter_mut().enumerate().skip(depth) {
                *x = if at % 3 == 0 { 255 } else { random.below(256) as u8 };
            }
            let (p, q) = (bytes(&mut random, DType::U8, &[]), bytes(&mut random, b, &[]));
            verify("native.matmul-integer-packed", &Attrs::new(), &[&x, &w, &p, &q], 0.0);
        }
    }
}

#[test]
fn the_largest_products_do_not_saturate() {
    // On processors whose instruction for pairs of bytes saturates, 2 * 255 * 127 would become 32767.
    let x = Tensor::from_elements([1, 4], &[255_u8; 4]);
    let w = Tensor::from_elements([4, 1], &[127_i8; 4]);
    let (p, q) = (Tensor::scalar(0_u8), Tensor::scalar(0_i8));
    let want = Tensor::from_elements([1, 1], &[4 * 255 * 127]);
    let (_, got) =
        crate::check::run("native.matmul-integer", &Attrs::new(), &[&x, &w, &p, &q], want.ty(), 1, None);
    assert_close("plain", &got, &want, 0.0);
    let packed = w.to_layout(&"BA16b4a".parse().unwrap());
    let op = "native.matmul-integer-packed";
    let (_, got) = crate::check::run(op, &Attrs::new(), &[&x, &packed, &p, &q], want.ty(), 1, None);
    assert_close("packed", &got, &want, 0.0);
}

/// Images, channels, rows and columns; outputs and the rows and columns of a window; strides, dilations and pads.
type Case = ([usize; 4], [usize; 3], [i64; 2], [i64; 2], [i64; 4]);

#[test]
fn packed_convolutions_of_all_bytes_are_exact() {
    let mut random = Random::new(11);
    let cases: [Case; 10] = [
        ([1, 1, 1, 1], [1, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([2, 20, 9, 11], [33, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([1, 16, 12, 20], [32, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 35, 17, 19], [20, 1, 1], [2, 3], [1, 1], [0, 0, 0, 0]),
        ([1, 5, 6, 5], [7, 1, 1], [2, 2], [1, 1], [1, 2, 3, 0]),
        ([1, 3, 23, 40], [16, 7, 7], [2, 2], [1, 1], [3, 3, 3, 3]),
        ([1, 8, 9, 9], [17, 3, 2], [1, 2], [2, 3], [2, 3, 0, 1]),
        ([3, 4, 4, 4], [48, 3, 3], [1, 1], [1, 1], [2, 2, 2, 2]),
        ([1, 6, 3, 70], [16, 1, 5], [1, 1], [1, 1], [0, 0, 0, 4]),
        ([1, 64, 10, 10], [64, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
    ];
    for (a, b) in [DType::U8, DType::I8].into_iter().flat_map(|a| [(a, DType::U8), (a, DType::I8)]) {
        for (image, [outputs, rows, columns], strides, dilations, pads) in &cases {
            let attrs = Attrs::new()
                .with("strides", Attr::Ints(strides.to_vec()))
                .with("dilations", Attr::Ints(dilations.to_vec()))
                .with("pads", Attr::Ints(pads.to_vec()))
                .with("groups", Attr::Int(1));
            let x = bytes(&mut random, a, image);
            let w = bytes(&mut random, b, &[*outputs, image[1], *rows, *columns]);
            let w = w.to_layout(&"AcdB16a4b".parse().unwrap());
            let zero = Tensor::from_f64(b, vec![*outputs], &vec![0.0; *outputs]);
            for q in [bytes(&mut random, b, &[]), bytes(&mut random, b, &[*outputs]), zero] {
                let p = bytes(&mut random, a, &[]);
                let contract = verify("native.conv-integer-packed", &attrs, &[&x, &w, &p, &q], 0.0);
                assert_eq!(contract.implementation, "panels");
            }
        }
    }
}

#[test]
fn levels_after_a_chain_are_those_of_the_definition() {
    let mut random = Random::new(13);
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    // All values are small multiples of a power of two, so that every way to compute them is exact.
    let mut tensor = |dtype: DType, shape: &[usize], unit: f64| {
        let values: Vec<f64> =
            (0..shape.iter().product()).map(|_| (random.below(200) as f64 - 100.0) * unit).collect();
        Tensor::from_f64(dtype, shape.to_vec(), &values)
    };
    for source in [DType::I32, DType::F32, DType::I8] {
        for shape in [vec![2, 5, 3, 4], vec![1, 3, 40, 41], vec![1, 70, 1, 1], vec![1, 1, 1, 1]] {
            let x = tensor(source, &shape, 1.0);
            let by_channel = [1, shape[1], 1, 1];
            let (scales, bias) =
                (tensor(DType::F32, &by_channel, 0.0625), tensor(DType::F32, &by_channel, 0.5));
            let residual = tensor(DType::F32, &shape, 0.25);
            for (levels, zero) in [(DType::U8, 113.0), (DType::I8, -7.0)] {
                let (s, z) = (Tensor::scalar(0.5_f32), Tensor::from_f64(levels, vec![], &[zero]));
                let chains: [(&[&'static str], &[&Tensor]); 4] = [
                    (&[], &[]),
                    (&["relu"], &[]),
                    (&["mul", "add"], &[&scales, &bias]),
                    (&["mul", "add", "relu", "add"], &[&scales, &bias, &residual]),
                ];
                for (steps, extras) in chains {
                    let post = steps.iter().map(|op| step(op)).collect();
                    let attrs = Attrs::new().with("post", Attr::Post(post));
                    let operands: Vec<&Tensor> =
                        [&x, &s, &z].into_iter().chain(extras.iter().copied()).collect();
                    let contract = verify("native.requantize", &attrs, &operands, 0.0);
                    let of_bytes = source == DType::I8 && extras.is_empty() && x.ty().shape.count() >= 512;
                    assert_eq!(contract.implementation, if of_bytes { "table" } else { "steps" });
                }
            }
        }
    }
}

/// Returns whether the processor multiplies bytes in fours.
pub(crate) fn has_vnni() -> bool {
    #[cfg(target_arch = "x86_64")]
    return match Isa::running() {
        Isa::Avx512 => std::is_x86_feature_detected!("avx512vnni"),
        Isa::Avx2 => std::is_x86_feature_detected!("avxvnni"),
        _ => false,
    };
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[test]
fn products_of_two_values_are_exact() {
    let mut random = Random::new(13);
    for (a, b) in [DType::U8, DType::I8].into_iter().flat_map(|a| [(a, DType::U8), (a, DType::I8)]) {
        for (left, right, [rows, depth, columns]) in [
            (vec![], vec![], [5, 33, 17]),
            (vec![], vec![], [4, 20, 8]),
            // The heads of attention.
            (vec![2, 3], vec![2, 3], [37, 64, 40]),
            (vec![1, 4], vec![1, 4], [300, 132, 70]),
            // The same matrix for several products, and the other way round.
            (vec![3], vec![1], [9, 64, 33]),
            (vec![], vec![2], [12, 7, 16]),
            // Too few rows or columns.
            (vec![2], vec![2], [3, 64, 40]),
            (vec![2], vec![2], [16, 64, 7]),
        ] {
            let shape = |outer: &[usize], last: [usize; 2]| [outer, &last[..]].concat();
            let x = bytes(&mut random, a, &shape(&left, [rows, depth]));
            let w = bytes(&mut random, b, &shape(&right, [depth, columns]));
            let by_row = (shape(&left, [rows, 1]), shape(&right, [1, columns]));
            for (p, q) in [(vec![], vec![]), by_row] {
                let (p, q) = (bytes(&mut random, a, &p), bytes(&mut random, b, &q));
                let contract = verify("native.matmul-integer", &Attrs::new(), &[&x, &w, &p, &q], 0.0);
                let in_fours = rows >= 4 && columns >= 8 && has_vnni();
                let by_matrices = rows >= 8 && columns > 16 && has_matrices(depth.div_ceil(4));
                let expected = match (in_fours, by_matrices) {
                    (false, _) => "pairs",
                    (true, false) => "panels",
                    (true, true) => "matrices",
                };
                assert_eq!(contract.implementation, expected, "{left:?} {right:?} {rows} {depth} {columns}");
            }
        }
    }
}

#[test]
fn products_with_few_columns_are_exact() {
    let mut random = Random::new(8);
    for (a, b) in [(DType::U8, DType::I8), (DType::I8, DType::U8)] {
        for (shape, columns) in [(vec![3, 4, 50], 1), (vec![100, 512], 1), (vec![7, 16], 4), (vec![2, 15], 3)]
        {
            let depth = *shape.last().unwrap();
            let x = bytes(&mut random, a, &shape);
            let w = bytes(&mut random, b, &[depth, columns]);
            for q in [vec![], vec![columns]] {
                let (p, q) = (bytes(&mut random, a, &[]), bytes(&mut random, b, &q));
                let contract = verify("native.matmul-integer", &Attrs::new(), &[&x, &w, &p, &q], 0.0);
                assert_eq!(contract.implementation, "columns");
            }
        }
    }
}

#[test]
fn levels_are_those_of_the_definition() {
    let mut random = Random::new(9);
    for dtype in [DType::U8, DType::I8] {
        for (shape, column) in [
            (vec![70], vec![]),
            (vec![3, 5, 7], vec![5, 1]),
            (vec![3, 5, 33], vec![33]),
            (vec![2, 3], vec![2, 1]),
        ] {
            // Halves are frequent with these numbers, and some lie outside of the bounds.
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|_| random.below(2000) as f64 / 4.0 - 250.0).collect();
            let x = Tensor::from_f64(DType::F32, shape.clone(), &values);
            let number = column.iter().product();
            let scales: Vec<f64> = (0..number).map(|_| [0.5, 1.0, 2.0, 0.3][random.below(4)]).collect();
            let scale = Tensor::from_f64(DType::F32, column.clone(), &scales);
            for zero in [vec![], column.clone()] {
                let zero = bytes(&mut random, dtype, &zero);
                let contract = verify("native.quantize", &Attrs::new(), &[&x, &scale, &zero], 0.0);
                assert_eq!(contract.implementation, "levels");
                let levels = bytes(&mut random, dtype, &shape);
                verify("native.dequantize", &Attrs::new(), &[&levels, &scale, &zero], 0.0);
            }
        }
    }
}

#[test]
fn what_is_no_number_has_the_lowest_level_and_infinities_have_the_bounds() {
    let x = Tensor::from_elements([4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30]);
    for zero in [Tensor::scalar(7_u8), Tensor::scalar(-7_i8)] {
        verify("native.quantize", &Attrs::new(), &[&x, &Tensor::scalar(0.5_f32), &zero], 0.0);
    }
}

#[test]
fn layers_with_weights_of_bytes_have_the_states_of_the_definition() {
    let mut random = Random::new(10);
    for (steps, batch, directions, hidden, reverse) in
        [(3, 1, 1, 16, 0), (4, 2, 2, 32, 0), (2, 7, 1, 16, 1), (3, 1, 1, 144, 0)]
    {
        for (dtype, by_column) in [(DType::I8, false), (DType::U8, true)] {
            let columns = if by_column { 4 * hidden } else { 1 };
            let x = random.f32([steps, batch, directions, 4 * hidden]);
            let w = bytes(&mut random, dtype, &[directions, hidden, 4 * hidden]);
            let w = w.to_layout(&"aCB16c4b".parse().unwrap());
            let zeros: Vec<f64> = (0..directions * columns).map(|_| random.below(9) as f64).collect();
            let zeros = Tensor::from_f64(DType::F32, [directions, 1, columns], &zeros);
            let scales: Vec<f64> =
                (0..directions * columns).map(|_| 0.001 + random.below(9) as f64 / 4000.0).collect();
            let scales = Tensor::from_f64(DType::F32, [directions, 1, columns], &scales);
            let (state, memory) =
                (random.f32([directions, batch, hidden]), random.f32([directions, batch, hidden]));
            let functions = vec!["sigmoid 0 0, tanh 0 0, tanh 0 0"; directions].join(", ");
            let attrs = Attrs::new()
                .with("activations", Attr::Str(functions.into()))
                .float("clip", 0.0)
                .int("reverse", reverse)
                .int("coupled", 0);
            let operands = [&x, &w, &zeros, &scales, &state, &memory];
            // A state at the border of two levels may fall on either side.
            let contract = verify("native.lstm-integer", &attrs, &operands, 2e-3);
            assert_eq!(contract.implementation, "panels");
        }
    }
}

#[test]
fn tables_have_the_result_of_each_byte() {
    let mut random = Random::new(17);
    let types = [DType::U8, DType::I8];
    for (from, to) in types.into_iter().flat_map(|from| types.map(|to| (from, to))) {
        let table = bytes(&mut random, to, &[256]);
        for shape in [vec![1], vec![70], vec![256], vec![3, 5, 0], vec![2, 63, 9, 33]] {
            let x = bytes(&mut random, from, &shape);
            let contract = verify("native.table", &Attrs::new(), &[&x, &table], 0.0);
            assert_eq!(contract.implementation, "bytes");
        }
        let pixels = bytes(&mut random, from, &[1, 70, 5, 3]).to_layout(&"nhwc".parse().unwrap());
        verify("native.table", &Attrs::new(), &[&pixels, &table], 0.0);
    }
}

#[test]
fn sums_of_levels_are_exact() {
    let mut random = Random::new(18);
    for dtype in [DType::U8, DType::I8] {
        let mut check = |shape: &[usize], layout: &str, axes: &[i64], expected: &str| {
            let x = bytes(&mut random, dtype, shape).to_layout(&layout.parse().unwrap());
            // The smallest and the largest zero point, and one between them.
            for point in [0.0, 99.0, 255.0] {
                let least = if dtype == DType::I8 { -128.0 } else { 0.0 };
                let p = Tensor::from_f64(dtype, vec![], &[point + least]);
                let attrs =
                    Attrs::new().with("axes", Attr::Ints(axes.to_vec())).with("keepdims", Attr::Int(1));
                let contract = verify("native.reduce-sum-integer", &attrs, &[&x, &p], 0.0);
                assert_eq!(contract.implementation, expected, "{shape:?} {layout} {axes:?}");
            }
        };
        // Channels that fill vectors, and those that do not; more pixels than 16 bits have room for, and none.
        for channels in [2, 16, 31, 32, 33, 144] {
            for pixels in [[1, 1], [7, 7], [16, 16], [40, 41], [0, 3]] {
                check(&[2, channels, pixels[0], pixels[1]], "nhwc", &[2, 3], "columns");
            }
        }
        check(&[2, 3, 40, 41], "plain", &[2, 3], "rows");
        check(&[5, 300, 18], "plain", &[1], "columns");
        check(&[5, 300, 18], "plain", &[0, 1], "columns");
        check(&[5, 30, 8], "plain", &[0, 2], "reference");
    }
}

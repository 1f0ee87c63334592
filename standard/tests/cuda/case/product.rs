//! Cases of matrix products, convolutions and attention.

use super::{Case, FLOATS, Random, post, step};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::attention::AxisOrder;
use ovolo::tensor::{DType, Tensor};

/// Matrix products, convolutions and attention, with post chains.
pub fn product(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    matrices(r, &mut cases);
    windows(r, &mut cases);
    heads(r, &mut cases);
    cases
}

/// Products of matrices, and large ones of which parts are squares.
fn matrices(r: &mut Random, cases: &mut Vec<Option<Case>>) {
    let matrices: [(&[usize], &[usize]); 8] = [
        (&[65, 33], &[33, 70]),
        (&[64, 64], &[64, 64]),
        (&[1, 100], &[100, 300]),
        (&[40, 17], &[17, 3]),
        (&[3, 2, 20, 9], &[2, 9, 30]),
        (&[2, 20, 5], &[3, 1, 5, 24]),
        (&[7, 0], &[0, 5]),
        (&[16, 1], &[1, 16]),
    ];
    for (a, b) in matrices {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::I64, DType::I8] {
            let operands = vec![r.tensor(dtype, a), r.tensor(dtype, b)];
            cases.push(Case::new("matmul", Attrs::new(), operands));
        }
        let mut operands = vec![r.tensor(DType::F32, a), r.tensor(DType::F32, b)];
        let columns = b[b.len() - 1];
        operands.extend([r.tensor(DType::F32, &[columns]), r.tensor(DType::F32, &[a[a.len() - 2], 1])]);
        let chain = post(vec![step("add", &[]), step("gelu", &[]), step("rsub", &[])]);
        cases.push(Case::new("matmul", chain, operands));
    }
    // Enough large squares that they are used.
    for dtype in [DType::F32, DType::I32] {
        // Rows of the right operand are whole vectors, then those of the left one, then those of both.
        for [depth, columns] in [[9, 120], [12, 118], [12, 120]] {
            let operands = vec![r.tensor(dtype, &[128, 115, depth]), r.tensor(dtype, &[depth, columns])];
            cases.push(Case::new("matmul", Attrs::new(), operands));
        }
    }
    for channels in [3, 4] {
        let image = r.tensor(DType::F32, &[2, channels, 100, 99]);
        let weights = vec![r.tensor(DType::F32, &[128, channels, 3, 3]), r.tensor(DType::F32, &[128])];
        let window = Attrs::new().ints("strides", &[1, 1]).ints("pads", &[1; 4]);
        cases.push(Case::new("conv", window, std::iter::once(image).chain(weights).collect()));
    }
}

/// Convolutions.
fn windows(r: &mut Random, cases: &mut Vec<Option<Case>>) {
    // Input, weights, groups, strides, dilations, pads.
    type Window = ([usize; 4], [usize; 4], i64, [i64; 2], [i64; 2], [i64; 4]);
    let windows: [Window; 9] = [
        ([1, 16, 14, 14], [32, 16, 3, 3], 1, [1, 1], [1, 1], [1, 1, 1, 1]),
        ([2, 3, 33, 31], [20, 3, 7, 7], 1, [2, 2], [1, 1], [3, 3, 3, 3]),
        ([2, 17, 7, 7], [33, 17, 1, 1], 1, [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 12, 9, 10], [12, 1, 3, 3], 12, [1, 2], [1, 1], [1, 0, 1, 2]),
        ([2, 32, 8, 8], [64, 8, 3, 3], 4, [1, 1], [1, 1], [1, 1, 1, 1]),
        ([1, 4, 20, 20], [16, 4, 3, 3], 1, [1, 1], [2, 3], [2, 3, 2, 3]),
        ([1, 5, 11, 12], [18, 5, 3, 2], 1, [3, 1], [1, 2], [0, 0, 0, 0]),
        ([3, 8, 1, 1], [24, 8, 1, 1], 1, [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 6, 5, 5], [4, 3, 5, 5], 2, [1, 1], [1, 1], [4, 4, 0, 0]),
    ];
    for (x, w, groups, strides, dilations, pads) in windows {
        for (dtype, fused) in [
            (DType::F32, false),
            (DType::F32, true),
            (DType::F16, true),
            (DType::BF16, false),
            (DType::F64, true),
        ] {
            let attrs = if fused { post(vec![step("mul", &[]), step("relu", &[])]) } else { Attrs::new() };
            let attrs = attrs.int("groups", groups).ints("strides", &strides).ints("dilations", &dilations);
            let mut operands = vec![r.tensor(dtype, &x), r.tensor(dtype, &w), r.tensor(dtype, &[w[0]])];
            operands.extend(fused.then(|| r.tensor(dtype, &[w[0], 1, 1])));
            cases.push(Case::new("conv", attrs.ints("pads", &pads), operands));
        }
    }
}

/// Attention.
fn heads(r: &mut Random, cases: &mut Vec<Option<Case>>) {
    for ([batch, heads, rows, length, depth, width], mask) in [
        ([1, 2, 5, 7, 8, 8], None),
        ([2, 3, 17, 33, 16, 24], Some(vec![2, 1, 1, 33])),
        ([1, 1, 1, 300, 4, 300], Some(vec![300])),
        ([1, 2, 4, 1, 3, 5], Some(vec![2, 4, 1])),
    ] {
        for dtype in FLOATS {
            let mut operands = vec![
                r.tensor(dtype, &[batch, heads, rows, depth]),
                r.tensor(dtype, &[batch, heads, length, depth]),
                r.tensor(dtype, &[batch, heads, length, width]),
            ];
            operands.extend(mask.as_ref().map(|mask| r.tensor(dtype, mask)));
            let scale = Attrs::new().float("scale", 0.25);
            cases.push(Case::new("attention", scale.clone(), operands.clone()));
            // The same operands, with heads side by side in each row, and rows before batches.
            for order in [[0, 2, 1, 3], [1, 2, 0, 3]] {
                let attrs = scale.clone().ints("order", &order);
                let stored = AxisOrder::new(&attrs).unwrap();
                let mut operands = operands.clone();
                for operand in &mut operands[..3] {
                    let ty = operand.ty();
                    let sizes = <[usize; 4]>::try_from(&ty.shape[..]).unwrap();
                    *operand = r.tensor(dtype, &stored.stored(sizes));
                }
                cases.push(Case::new("attention", attrs, operands));
            }
        }
    }
    // Tiles of few rows for few heads, and of more for more heads.
    for (dtype, [batch, heads, rows, length, depth, width], mask) in [
        (DType::F32, [1, 2, 35, 70, 64, 64], Some(vec![35, 70])),
        (DType::BF16, [1, 1, 18, 40, 128, 72], None),
        (DType::F16, [1, 66, 40, 9, 8, 12], Some(vec![66, 1, 9])),
        (DType::F32, [2, 66, 3, 35, 4, 8], None),
    ] {
        let mut operands = vec![
            r.tensor(dtype, &[batch, heads, rows, depth]),
            r.tensor(dtype, &[batch, heads, length, depth]),
            r.tensor(dtype, &[batch, heads, length, width]),
        ];
        operands.extend(mask.map(|mask: Vec<usize>| r.tensor(dtype, &mask)));
        cases.push(Case::new("attention", Attrs::new().float("scale", 0.25), operands));
    }
}

/// Products on tensor cores: with edges in all directions, batches, post chains, and tiles of both sizes.
pub fn tensor(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let attrs = || Attrs::new().int("tf32", i64::from(dtype == DType::F32));
        let sizes = [[16, 16, 16], [64, 64, 64], [70, 40, 72], [1, 8, 8], [130, 72, 136], [33, 104, 200]];
        for [rows, depth, columns] in sizes {
            let batch = 1 + r.below(3);
            let left = untied(r.tensor(dtype, &[batch, rows, depth]));
            let right = if r.below(2) == 0 { vec![depth, columns] } else { vec![batch, depth, columns] };
            let right = untied(r.tensor(dtype, &right));
            cases.push(Case::new("cuda.matmul-tensor", attrs(), vec![left.clone(), right.clone()]));
            let steps = vec![step("add", &[]), step("gelu", &[]), step("add", &[])];
            let operands =
                vec![left, right, r.tensor(dtype, &[columns]), r.tensor(dtype, &[batch, rows, columns])];
            cases.push(Case::new("cuda.matmul-tensor", attrs().with("post", Attr::Post(steps)), operands));
        }
        // Enough large tiles that they are used.
        let operands = [[64, 130, 8].as_slice(), &[8, 120]].map(|shape| untied(r.tensor(dtype, shape)));
        cases.push(Case::new("cuda.matmul-tensor", attrs(), operands.to_vec()));
    }
    assert!(cases.iter().all(Option::is_some), "the op refuses a case");
    cases
}

/// Moves numbers of `f32` that lie between two of TF32 up by one bit: tensor cores round them away from zero, and the
/// reference to even.
fn untied(mut tensor: Tensor) -> Tensor {
    if tensor.ty().dtype == DType::F32 {
        for bytes in tensor.bytes_mut().chunks_exact_mut(4) {
            let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            bytes.copy_from_slice(&(bits | u32::from(bits & 0x1fff == 0x1000)).to_le_bytes());
        }
    }
    tensor
}

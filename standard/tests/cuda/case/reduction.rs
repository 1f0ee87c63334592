//! Reductions over axes, lines and windows.

use super::{Case, FLOATS, Random, step};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Layout};

pub(super) fn axes(r: &mut Random, rank: usize) -> Vec<i64> {
    (0..rank as i64).filter(|_| r.below(2) == 0).collect()
}

/// Reductions over any axes, small and large.
pub fn reduce(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let kinds = ["reduce-sum", "reduce-mean", "reduce-max", "reduce-min", "reduce-prod"];
    for kind in kinds {
        for dtype in FLOATS.into_iter().chain([DType::I32, DType::I64]) {
            for _ in 0..3 {
                let rank = r.below(6);
                let most = if kind == "reduce-prod" { 200 } else { 4000 };
                let shape = r.shape(rank, most);
                let attrs = Attrs::new().ints("axes", &axes(r, rank)).int("keepdims", r.below(2) as i64);
                let x =
                    if kind == "reduce-prod" { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
                cases.push(Case::new(kind, attrs, vec![x]));
            }
        }
    }
    // Rows for a thread, a warp, a block and many blocks; columns for one block and for many.
    let shapes: [(&[usize], &[i64]); 11] = [
        (&[1000, 7], &[1]),
        (&[33, 1536], &[1]),
        (&[33, 1537], &[1]),
        (&[5, 3000], &[1]),
        (&[2, 70_000], &[1]),
        (&[300_001], &[0]),
        (&[700, 48], &[0]),
        (&[3000, 20], &[0]),
        (&[5000, 3], &[0]),
        (&[4, 257, 3, 64], &[0, 2]),
        (&[3, 50, 4, 1000], &[1, 3]),
    ];
    for (shape, axes) in shapes {
        for (kind, dtype) in [
            ("reduce-sum", DType::F32),
            ("reduce-mean", DType::F16),
            ("reduce-max", DType::I32),
            ("reduce-min", DType::F64),
        ] {
            let attrs = Attrs::new().ints("axes", axes).int("keepdims", 1);
            cases.push(Case::new(kind, attrs, vec![r.tensor(dtype, shape)]));
        }
    }
    for op in ["arg-max", "arg-min"] {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::I64] {
            for last in 0..2 {
                let rank = 1 + r.below(4);
                let mut shape = r.shape(rank, 2000);
                let axis = r.below(rank);
                shape[axis] = shape[axis].max(1);
                let attrs = Attrs::new().int("axis", axis as i64).int("select-last", last).int("keepdims", 0);
                cases.push(Case::new(op, attrs, vec![r.tensor(dtype, &shape)]));
            }
        }
    }
    cases
}

/// Softmax and norms.
pub fn lines(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for op in ["softmax", "log-softmax"] {
        for dtype in FLOATS {
            for _ in 0..4 {
                let rank = 1 + r.below(4);
                let shape = r.shape(rank, 3000);
                let axis = r.below(rank) as i64;
                cases.push(Case::new(op, Attrs::new().int("axis", axis), vec![r.tensor(dtype, &shape)]));
            }
            for shape in [&[3_usize, 1000][..], &[2, 1025], &[2, 9000], &[2, 40, 5], &[2, 100, 33]] {
                cases.push(Case::new(op, Attrs::new().int("axis", 1), vec![r.tensor(dtype, shape)]));
            }
        }
    }
    for dtype in FLOATS {
        let shapes: [(&[usize], usize); 8] = [
            (&[4, 768], 1),
            (&[3, 5, 7], 1),
            (&[2, 3, 1030], 2),
            (&[2, 8200], 1),
            (&[9001], 0),
            (&[50, 3], 1),
            (&[2, 4, 6, 8], 2),
            (&[6, 1], 1),
        ];
        for (shape, axis) in shapes {
            let inner = &shape[axis..];
            let operands = vec![r.tensor(dtype, shape), r.tensor(dtype, inner), r.tensor(dtype, inner)];
            let attrs = Attrs::new().int("axis", axis as i64);
            cases.push(Case::new("rms-norm", attrs.clone(), operands[..2].to_vec()));
            cases.push(Case::new("layer-norm", attrs, operands));
        }
        for shape in [&[2_usize, 3, 5, 7][..], &[1, 4, 40, 40], &[2, 3, 8]] {
            let channels = &shape[1..2];
            let operands = vec![r.tensor(dtype, shape), r.tensor(dtype, channels), r.tensor(dtype, channels)];
            cases.push(Case::new("instance-norm", Attrs::new().float("epsilon", 1e-3), operands));
            let operands = vec![
                r.tensor(dtype, shape),
                r.tensor(dtype, channels),
                r.tensor(dtype, channels),
                r.tensor(dtype, channels),
                r.positive(dtype, channels),
            ];
            cases.push(Case::new("batch-norm", Attrs::new().float("epsilon", 1e-3), operands));
        }
        for size in [1, 3, 4, 5] {
            let attrs = Attrs::new().int("size", size).float("alpha", 0.2);
            cases.push(Case::new("lrn", attrs, vec![r.tensor(dtype, &[2, 7, 3, 5])]));
        }
    }
    cases
}

/// Pools.
pub fn pool(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for _ in 0..8 {
            let shape = [1 + r.below(3), r.size(), 3 + r.size(), 3 + r.size()];
            let kernel = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let pads: Vec<i64> = (0..4).map(|at| r.below(kernel[at % 2] as usize) as i64).collect();
            let attrs = Attrs::new()
                .ints("kernel", &kernel)
                .ints("strides", &[1 + r.below(3) as i64, 1 + r.below(3) as i64])
                .ints("pads", &pads);
            let x = r.tensor(dtype, &shape);
            let dilated = attrs.clone().ints("dilations", &[1 + r.below(2) as i64, 1]);
            cases.push(Case::new("max-pool", dilated, vec![x.clone()]));
            let counted = attrs.int("count-include-pad", r.below(2) as i64);
            let extra = counted.ints("ceil-extra", &[r.below(2) as i64, 0]);
            cases.push(Case::new("avg-pool", extra, vec![x]));
        }
    }
    cases
}

/// Ops on images with their channels innermost: pools, means of pixels, concatenations, depthwise convolutions.
pub fn channels(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let parse = |name: &str| name.parse::<Layout>().unwrap();
    let (nhwc, blocked) = (parse("nhwc"), parse("Oihw8o"));
    for dtype in FLOATS {
        for channels in [1, 6, 8, 20, 32, 33] {
            let shape = [1 + r.below(2), channels, 3 + r.size(), 3 + r.size()];
            let x = r.tensor(dtype, &shape).to_layout(&nhwc);
            let kernel = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let pads: Vec<i64> = (0..4).map(|at| r.below(kernel[at % 2] as usize) as i64).collect();
            let strides = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let window = Attrs::new().ints("strides", &strides).ints("pads", &pads);
            let attrs = window.clone().ints("kernel", &kernel);
            let dilated = attrs.clone().ints("dilations", &[1 + r.below(2) as i64, 1]);
            cases.push(Case::new("cuda.max-pool", dilated, vec![x.clone()]));
            for counted in [0, 1] {
                let extra = [r.below(2) as i64, 0];
                let attrs = attrs.clone().int("count-include-pad", counted).ints("ceil-extra", &extra);
                cases.push(Case::new("cuda.avg-pool", attrs, vec![x.clone()]));
            }
            let pixels = Attrs::new().ints("axes", &[2, 3]);
            cases.push(Case::new("cuda.reduce-mean", pixels, vec![x.clone()]));
            let mut other = shape;
            other[1] = r.size();
            let parts = vec![x.clone(), r.tensor(dtype, &other).to_layout(&nhwc), x.clone()];
            cases.push(Case::new("cuda.concat", Attrs::new().int("axis", 1), parts));
            let weights = [channels, 1, kernel[0] as usize, kernel[1] as usize];
            for fused in [false, true] {
                let steps = if fused { vec![step("mul", &[]), step("silu", &[])] } else { Vec::new() };
                let attrs = window.clone().int("groups", channels as i64).with("post", Attr::Post(steps));
                let filter = r.tensor(dtype, &weights).to_layout(&blocked);
                let mut operands = vec![x.clone(), filter, r.tensor(dtype, &[channels])];
                operands.extend(fused.then(|| r.tensor(dtype, &[1, channels, 1, 1]).to_layout(&nhwc)));
                cases.push(Case::new("cuda.conv-depthwise", attrs, operands));
            }
        }
        let large = r.tensor(dtype, &[1, 96, 40, 40]).to_layout(&nhwc);
        cases.push(Case::new("cuda.reduce-mean", Attrs::new().ints("axes", &[2, 3]), vec![large]));
    }
    cases
}

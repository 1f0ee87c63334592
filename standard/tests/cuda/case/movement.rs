//! Ops that move elements and change layouts.

use super::{Case, Random};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Layout, Tensor};

/// Ops that copy: transposes, slices, pads, expansions, concatenations, gathers.
pub fn moved(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let types = [DType::F32, DType::F16, DType::I64, DType::Bool, DType::I8, DType::BF16];
    for round in 0..60 {
        let dtype = types[round % types.len()];
        let rank = r.below(7);
        let shape = r.shape(rank, 6000);
        let order = r.order(rank);
        cases.push(Case::new("transpose", Attrs::new().ints("perm", &order), vec![r.tensor(dtype, &shape)]));

        let steps: Vec<i64> = shape.iter().map(|_| r.pick(&[1, 1, 2, 3, -1, -2])).collect();
        let (mut starts, mut sizes) = (Vec::new(), Vec::new());
        for (size, step) in shape.iter().zip(&steps) {
            let size = *size as i64;
            let count =
                if size == 0 { 0 } else { 1 + r.below(((size - 1) / step.abs() + 1) as usize) as i64 };
            let reach = (count - 1).max(0) * step.abs();
            let room = r.below((size - reach).max(1) as usize) as i64;
            starts.push(if *step > 0 { room } else { room + reach });
            sizes.push(count);
        }
        let attrs = Attrs::new().ints("starts", &starts).ints("sizes", &sizes).ints("steps", &steps);
        cases.push(Case::new("slice", attrs, vec![r.tensor(dtype, &shape)]));

        let pads: Vec<i64> = (0..2 * rank).map(|_| r.pick(&[0, 0, 1, 2, 4])).collect();
        let operands = vec![r.tensor(dtype, &shape), r.tensor(dtype, &[])];
        cases.push(Case::new("pad", Attrs::new().ints("pads", &pads), operands));

        let narrower = r.narrower(&shape);
        let wanted: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        cases.push(Case::new(
            "expand",
            Attrs::new().ints("shape", &wanted),
            vec![r.tensor(dtype, &narrower)],
        ));
        if rank == 0 {
            continue;
        }
        let axis = r.below(rank);
        let operands: Vec<Tensor> = (0..1 + r.below(4))
            .map(|_| {
                let mut part = shape.clone();
                part[axis] = r.below(9);
                r.tensor(dtype, &part)
            })
            .collect();
        cases.push(Case::new("concat", Attrs::new().int("axis", axis as i64), operands));

        let rank_of_positions = r.below(3);
        let positions = r.shape(rank_of_positions, 40);
        let size = shape[axis] as i64;
        let values: Vec<f64> = (0..positions.iter().product::<usize>())
            .map(|_| (r.below((2 * size).max(1) as usize) as i64 - size) as f64)
            .collect();
        let whole = r.pick(&[DType::I32, DType::I64]);
        let at = Tensor::from_f64(whole, positions, &values);
        let attrs = Attrs::new().int("axis", axis as i64);
        cases.push(Case::new("gather", attrs.clone(), vec![r.tensor(dtype, &shape), at]));
        let mut positions: Vec<usize> = shape.iter().map(|size| size.min(&5)).copied().collect();
        positions[axis] = r.below(6);
        let values: Vec<f64> = (0..positions.iter().product::<usize>())
            .map(|_| (r.below((2 * size).max(1) as usize) as i64 - size) as f64)
            .collect();
        let at = Tensor::from_f64(whole, positions, &values);
        cases.push(Case::new("gather-elements", attrs, vec![r.tensor(dtype, &shape), at]));
    }
    for (shape, perm) in [
        (&[40_usize, 70][..], &[1_i64, 0][..]),
        (&[3, 40, 4, 33], &[0, 2, 3, 1]),
        (&[2, 33, 9, 9], &[0, 3, 2, 1]),
    ] {
        for dtype in types {
            cases.push(Case::new("transpose", Attrs::new().ints("perm", perm), vec![r.tensor(dtype, shape)]));
        }
    }
    cases
}

/// Conversions between layouts, and ops on layouts other than the default.
pub fn layout(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let parse = |name: &str| name.parse::<Layout>().unwrap();
    for name in ["nChw16c", "nChw8c", "nhwc", "OIhw16i16o", "Ohwi32o"] {
        for channels in [1, 3, 16, 17, 32, 48] {
            for dtype in [DType::F32, DType::F16] {
                let layout = parse(name);
                let plain = r.tensor(dtype, &[2, channels, 5, 9]);
                let attrs = Attrs::new().with("layout", Attr::Layout(layout.clone()));
                cases.push(Case::new("pack", attrs, vec![plain.clone()]));
                let packed = plain.to_layout(&layout);
                cases.push(Case::new("unpack", Attrs::new(), vec![packed.clone()]));
                cases.push(Case::new("exp", Attrs::new(), vec![packed.clone()]));
                let other = r.tensor(dtype, &[2, channels, 1, 1]).to_layout(&layout);
                cases.push(Case::new("add", Attrs::new(), vec![packed.clone(), other]));
                let scalar = r.tensor(dtype, &[]);
                cases.push(Case::new("sub", Attrs::new(), vec![scalar, packed.clone()]));
                if name == "nhwc" {
                    let to = Attrs::new().with("layout", Attr::Layout(parse("nChw16c")));
                    cases.push(Case::new("reorder", to, vec![packed]));
                } else if name == "nChw16c" {
                    let to = Attrs::new().with("layout", Attr::Layout(parse("nhwc")));
                    cases.push(Case::new("reorder", to, vec![packed]));
                }
            }
        }
    }
    let matrix = r.tensor(DType::F32, &[37, 70]);
    let panels = Attrs::new().with("layout", Attr::Layout(parse("Ba32b")));
    cases.push(Case::new("pack", panels, vec![matrix.clone()]));
    cases.push(Case::new("unpack", Attrs::new(), vec![matrix.to_layout(&parse("Ba32b"))]));
    cases
}

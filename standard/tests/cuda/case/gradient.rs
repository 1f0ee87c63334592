//! Gradients of elementwise functions.

use super::{Case, Random, step, step_of};
use ovolo::attr::{Attr, Attrs};
use ovolo::scalar;
use ovolo::tensor::DType;

/// Gradients of elementwise ops, including the sums over broadcast axes.
pub fn gradient(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for of in scalar::built_in().iter().map(|function| step_of(*function)) {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let rank = r.below(5);
            let shape = r.shape(rank, 1000);
            let positive = matches!(of.op.name(), "log" | "sqrt" | "reciprocal");
            let x = if positive { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
            let attrs = Attrs::new().with("of", Attr::Post(vec![of.clone()]));
            cases.push(Case::new("grad", attrs, vec![x, r.tensor(dtype, &shape)]));
        }
    }
    for op in ["add", "sub", "mul", "div", "pow", "min", "max"] {
        for dtype in [DType::F32, DType::BF16] {
            for operand in 0..2 {
                for _ in 0..3 {
                    let (a, b) = r.pair();
                    let whole =
                        ovolo::tensor::Shape::new(a.clone()).broadcast(&ovolo::tensor::Shape::new(b.clone()));
                    let attrs =
                        Attrs::new().with("of", Attr::Post(vec![step(op, &[])])).int("operand", operand);
                    let operands =
                        vec![r.positive(dtype, &a), r.positive(dtype, &b), r.tensor(dtype, &whole.unwrap())];
                    cases.push(Case::new("grad", attrs, operands));
                }
            }
        }
    }
    // A bias along a middle axis, and a scalar: many elements are added for each.
    for (narrow, operand) in [(&[8_usize, 1, 1][..], 1), (&[], 1), (&[33], 1)] {
        let wide = [16, 8, 31, 33];
        let attrs = Attrs::new().with("of", Attr::Post(vec![step("mul", &[])])).int("operand", operand);
        let operands =
            vec![r.tensor(DType::F32, &wide), r.tensor(DType::F32, narrow), r.tensor(DType::F32, &wide)];
        cases.push(Case::new("grad", attrs, operands));
    }
    cases
}

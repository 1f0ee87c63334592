//! Functions of two numbers that only their formulas define.

use super::{Case, FLOATS, INTEGERS, Random, ops, post, step_of};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::tensor::{DType, Tensor};

/// Functions of two numbers that only their formulas define.
pub(super) const TABLE: &str = r#"[
    Function(name: "hypot", doc: "", formula: "sqrt(x * x + y * y)", commutative: true),
    Function(
        name: "huber",
        doc: "",
        parameters: [Parameter(name: "delta", default: 1.0, doc: "where it becomes a line")],
        formula: "if(abs(x - y) < delta, 0.5 * (x - y) * (x - y), delta * (abs(x - y) - 0.5 * delta))",
    ),
    Function(name: "rests", doc: "", formula: "if(x == y, 0, remainder(x, 3) - modulo(y, 2) + pow(abs(y), 2))"),
    Function(name: "truths", doc: "", formula: "equal(x, y) + 2 * less(x, y) + 4 * greater-equal(x, y) + 32 * and(x, y)
        + 64 * or(x, 0) + 128 * xor(x, y) + max(x, y) - min(x, y)"),
    Function(name: "bits", doc: "", formula: "bit-and(x, y) + bit-or(x, y) - bit-xor(x, y) + shift-left(x, 2)
        - shift-right(x, y)"),
    Function(name: "bounded", doc: "", formula: "-max(min(x, y), 2)"),
]"#;

/// Functions of two numbers by their formulas, as ops, as steps, and their gradients.
pub fn formulas(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for name in ["hypot", "huber", "rests", "truths", "bits", "bounded"] {
        let function = ops().get(name).unwrap().function().unwrap();
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let (a, b) = r.pair();
            // Jumps are where rounding decides.
            let whole = matches!(name, "rests" | "truths" | "bits");
            let kind = if whole { DType::I8 } else { dtype };
            let operands =
                [a, b].map(|shape| Tensor::from_f64(dtype, &shape[..], &r.tensor(kind, &shape).to_f64()));
            let (a, b) = (operands[0].ty().shape.clone(), operands[1].ty().shape.clone());
            let unsigned = dtype == DType::U8 && whole;
            if !unsigned {
                cases.push(Case::new(name, Attrs::new(), operands.to_vec()));
            }
            if dtype.is_float() && !whole {
                let above = r.tensor(dtype, &a.broadcast(&b).unwrap());
                let step = Step { op: function.into(), ..step_of(function) };
                for operand in 0..2 {
                    let attrs =
                        Attrs::new().with("of", Attr::Post(vec![step.clone()])).int("operand", operand);
                    let operands = vec![operands[0].clone(), operands[1].clone(), above.clone()];
                    cases.push(Case::new("grad", attrs, operands));
                }
            }
        }
    }
    let step = |name: &str, parameters: &[f64]| {
        let parameters = parameters.iter().map(|one| Float(*one)).collect();
        Step { op: ops().step(name).unwrap(), parameters }
    };
    let shape = [3, 33];
    let mut operand = || r.positive(DType::F32, &shape);
    let chain = vec![step("hypot", &[]), step("huber", &[0.5]), step("rhuber", &[0.75]), step("tanh", &[])];
    cases.push(Case::new("map", post(chain), vec![operand(), operand(), operand(), operand()]));
    let tree = vec![step("neg", &[]), step("push", &[]), step("exp", &[]), step("pop-huber", &[0.5])];
    cases.push(Case::new("tree", post(tree), vec![operand(), operand()]));
    cases
}

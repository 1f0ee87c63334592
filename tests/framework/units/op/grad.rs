//! Tests of `src/op/grad.rs`.

use ovolo::attr::{Attr, Attrs, Step};
use ovolo::op::{Ops, post};
use ovolo::tensor::{DType, Tensor, TensorType};

const STEP: f64 = 1e-6;

/// Binary ops that have a gradient.
const BINARY: [&str; 7] = ["add", "div", "max", "min", "mul", "pow", "sub"];

fn attrs(op: &'static str, operand: i64) -> Attrs {
    let step = Step { op: op.into(), parameters: Vec::new() };
    Attrs::new().with("of", Attr::Post(vec![step])).int("operand", operand)
}

#[test]
fn slopes_of_two_operands_are_those_of_small_steps() {
    let ops = Ops::new();
    let grad = ops.get("grad").unwrap();
    let ty = TensorType::plain(DType::F64, [1]);
    let mut known = ops.step_names();
    known.retain(|op| grad.result(&attrs(op, 0), &[&ty; 3]).is_ok());
    known.sort_unstable();
    assert_eq!(known, BINARY);
    for op in BINARY {
        for (a, b) in [(0.7, 1.9), (2.3, 0.4), (1.1, 3.2)] {
            for operand in 0..2 {
                let moved = |by: f64| {
                    let (a, b) = if operand == 0 { (a + by, b) } else { (a, b + by) };
                    post::binary(op, a, b).unwrap_or(f64::NAN)
                };
                let step = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let operands = [a, b, 1.0].map(|value| Tensor::from_elements([1], &[value]));
                let slope = grad.evaluate(&attrs(op, operand), &operands.each_ref(), &ty).to_f64()[0];
                assert!((slope - step).abs() < 1e-6, "{op} {operand} at {a}, {b}: {slope} and {step}");
            }
        }
    }
}

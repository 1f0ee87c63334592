//! Post chains and trees as expressions.

use super::expr::Expr;
use ovolo::attr::{Step, StepOp};

/// Returns a post chain or a tree on the first value. The other values are the operands of its steps.
pub(super) fn chain(steps: &[Step], x: &[Expr]) -> Result<Expr, String> {
    let mut extras = x[1..].iter();
    let mut value = x[0].clone();
    let mut aside = Vec::new();
    for step in steps {
        let parameters: Vec<f64> = step.parameters.iter().map(|p| p.0).collect();
        value = if step.op == StepOp::PUSH {
            aside.push(value);
            extras.next().ok_or("a step lacks its operand")?.clone()
        } else if let Some(function) = step.op.joins() {
            let left = aside.pop().ok_or("nothing is put aside")?;
            Expr::function(function, &parameters, vec![left, value])
        } else if let Some((function, reversed)) = step.op.binary() {
            let extra = extras.next().ok_or("a step lacks its operand")?.clone();
            let operands = if reversed { vec![extra, value] } else { vec![value, extra] };
            Expr::function(function, &parameters, operands)
        } else {
            let function = step
                .op
                .function()
                .ok_or_else(|| format!("`{}` cannot be a step of a post chain", step.op))?;
            Expr::function(function, &parameters, vec![value])
        };
    }
    Ok(value)
}

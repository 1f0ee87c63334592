//! Post chains and trees as expressions.

use super::expr::Expr;
use ovolo::attr::Step;
use ovolo::op::{post, tree};

/// Returns a post chain or a tree on the first value. The other values are the operands of its steps.
pub(super) fn chain(steps: &[Step], x: &[Expr]) -> Result<Expr, String> {
    let mut extras = x[1..].iter();
    let mut value = x[0].clone();
    let mut aside = Vec::new();
    for step in steps {
        let parameters = step.parameters.iter().map(|p| p.0).collect();
        value = if step.op == tree::PUSH {
            aside.push(value);
            extras.next().ok_or("a step lacks its operand")?.clone()
        } else if let Some(binary) = tree::popped(&step.op) {
            Expr::binary(binary, aside.pop().ok_or("nothing is put aside")?, value)
        } else if post::is_binary(step) {
            let extra = extras.next().ok_or("a step lacks its operand")?.clone();
            match step.op.name() {
                "rsub" => Expr::binary("sub", extra, value),
                "rdiv" => Expr::binary("div", extra, value),
                "rpow" => Expr::binary("pow", extra, value),
                op => Expr::binary(op, value, extra),
            }
        } else {
            let function = step
                .op
                .function()
                .ok_or_else(|| format!("`{}` cannot be a step of a post chain", step.op))?;
            Expr::function(function, parameters, value)
        };
    }
    Ok(value)
}

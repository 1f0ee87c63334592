//! The derivatives of binary elementwise ops as expressions, multiplied by the gradient of the result. Those of unary
//! functions are formulas.

use super::expr::Expr;

/// Arithmetic of one type, for writing formulas.
#[derive(Clone, Copy)]
struct Formula(ovolo::tensor::DType);

impl Formula {
    fn n(self, value: f64) -> Expr {
        Expr::number(self.0, value)
    }
}

fn f(op: &'static str, x: &Expr) -> Expr {
    Expr::unary(op, Vec::new(), x.clone())
}

fn sub(a: &Expr, b: &Expr) -> Expr {
    Expr::binary("sub", a.clone(), b.clone())
}

fn mul(a: &Expr, b: &Expr) -> Expr {
    Expr::binary("mul", a.clone(), b.clone())
}

fn div(a: &Expr, b: &Expr) -> Expr {
    Expr::binary("div", a.clone(), b.clone())
}

fn choose(op: &'static str, a: &Expr, b: &Expr, then: &Expr, otherwise: &Expr) -> Expr {
    Expr::select(Expr::binary(op, a.clone(), b.clone()), then.clone(), otherwise.clone())
}

/// Returns the gradient of a binary op for one of its operands.
pub(super) fn binary(op: &str, operand: usize, a: &Expr, b: &Expr, dy: &Expr) -> Result<Expr, String> {
    let t = Formula(a.dtype);
    let (zero, one) = (t.n(0.0), t.n(1.0));
    // If both operands are equal, each gets half of the gradient.
    let shared = |op: &'static str| {
        let half = mul(dy, &t.n(0.5));
        let (mine, other) = if operand == 0 { (a, b) } else { (b, a) };
        choose("equal", mine, other, &half, &choose(op, mine, other, dy, &zero))
    };
    Ok(match (op, operand) {
        ("add", _) | ("sub", 0) => dy.clone(),
        ("sub", _) => f("neg", dy),
        ("mul", 0) => mul(dy, b),
        ("mul", _) => mul(dy, a),
        ("div", 0) => div(dy, b),
        ("div", _) => f("neg", &div(&mul(dy, a), &mul(b, b))),
        ("pow", 0) => {
            let power = Expr::binary("pow", a.clone(), sub(b, &one));
            mul(dy, &mul(b, &power))
        }
        ("pow", _) => {
            let power = Expr::binary("pow", a.clone(), b.clone());
            mul(dy, &mul(&power, &f("log", a)))
        }
        ("min", _) => shared("less"),
        ("max", _) => shared("greater"),
        _ => return Err(format!("`{op}` has no gradient")),
    })
}

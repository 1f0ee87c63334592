//! Derivatives of elementwise ops as expressions, times the gradient that comes from above.

use super::expr::Expr;

/// Arithmetic of one type, to write formulas with.
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

fn add(a: &Expr, b: &Expr) -> Expr {
    Expr::binary("add", a.clone(), b.clone())
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

/// The gradient of an op of one operand.
pub(super) fn unary(op: &str, p: &[f64], x: &Expr, dy: &Expr) -> Result<Expr, String> {
    let t = Formula(x.dtype);
    let (zero, one) = (t.n(0.0), t.n(1.0));
    let at = |index: usize| t.n(p.get(index).copied().unwrap_or(f64::NAN));
    let rest = |value: &Expr| sub(&one, value);
    let slope = match op {
        "relu" => return Ok(choose("greater", x, &zero, dy, &zero)),
        "exp" => f("exp", x),
        "log" => return Ok(div(dy, x)),
        "sqrt" => return Ok(div(&mul(dy, &t.n(0.5)), &f("sqrt", x))),
        "neg" => return Ok(f("neg", dy)),
        "abs" => f("sign", x),
        "reciprocal" => return Ok(f("neg", &div(dy, &mul(x, x)))),
        "floor" | "ceil" | "round" | "sign" => return Ok(mul(dy, &zero)),
        "sigmoid" => {
            let s = f("sigmoid", x);
            mul(&s, &rest(&s))
        }
        "tanh" => {
            let y = f("tanh", x);
            rest(&mul(&y, &y))
        }
        "erf" => mul(&t.n(std::f64::consts::FRAC_2_SQRT_PI), &f("exp", &f("neg", &mul(x, x)))),
        "softplus" => f("sigmoid", x),
        "softsign" => {
            let below = add(&one, &f("abs", x));
            return Ok(div(dy, &mul(&below, &below)));
        }
        "sin" => f("cos", x),
        "cos" => f("neg", &f("sin", x)),
        "silu" => {
            let s = f("sigmoid", x);
            mul(&s, &add(&one, &mul(x, &rest(&s))))
        }
        "gelu" => {
            let root = t.n(std::f64::consts::FRAC_1_SQRT_2);
            let below = mul(&t.n(0.5), &add(&one, &f("erf", &mul(x, &root))));
            let bell = f("exp", &mul(&t.n(-0.5), &mul(x, x)));
            add(&below, &mul(x, &mul(&t.n(1.0 / (2.0 * std::f64::consts::PI).sqrt()), &bell)))
        }
        "gelu-tanh" => {
            let (root, cubic) = ((2.0 / std::f64::consts::PI).sqrt(), 0.044_715);
            let square = mul(x, x);
            let inner = mul(&t.n(root), &mul(x, &add(&one, &mul(&t.n(cubic), &square))));
            let y = f("tanh", &inner);
            let steep = mul(&t.n(root), &add(&one, &mul(&t.n(3.0 * cubic), &square)));
            let bend = mul(&mul(x, &rest(&mul(&y, &y))), &steep);
            mul(&t.n(0.5), &add(&add(&one, &y), &bend))
        }
        "hard-swish" => {
            let middle = add(&div(x, &t.n(3.0)), &t.n(0.5));
            let high = choose("less", x, &t.n(3.0), &middle, &one);
            choose("greater", x, &t.n(-3.0), &high, &zero)
        }
        "mish" => {
            let y = f("tanh", &f("softplus", x));
            add(&y, &mul(x, &mul(&rest(&mul(&y, &y)), &f("sigmoid", x))))
        }
        "leaky-relu" => choose("less", x, &zero, &at(0), &one),
        "elu" => choose("less", x, &zero, &mul(&at(0), &f("exp", x)), &one),
        "hard-sigmoid" => {
            let line = add(&mul(&at(0), x), &at(1));
            let low = choose("less", &line, &one, &at(0), &zero);
            choose("greater", &line, &zero, &low, &zero)
        }
        "clip" => {
            let high = choose("less-equal", x, &at(1), dy, &zero);
            return Ok(choose("greater-equal", x, &at(0), &high, &zero));
        }
        _ => return Err(format!("`{op}` has no gradient")),
    };
    Ok(mul(&slope, dy))
}

/// The gradient of an op of two operands for one of them.
pub(super) fn binary(op: &str, operand: usize, a: &Expr, b: &Expr, dy: &Expr) -> Result<Expr, String> {
    let t = Formula(a.dtype);
    let (zero, one) = (t.n(0.0), t.n(1.0));
    // What both operands reach is shared by both.
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

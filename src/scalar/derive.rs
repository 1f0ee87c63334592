//! Derivatives of formulas.

use super::{Binary, Compare, Formula, Unary};

impl Formula {
    /// Returns the derivative with respect to `x`, without terms that are 0 and factors that are 1. At a corner it is
    /// the slope of one side.
    pub fn derivative(&self) -> Self {
        self.derivative_by(&Self::X)
    }

    /// Returns the derivative with respect to an operand, which is `x` or `y`.
    pub(super) fn derivative_by(&self, operand: &Self) -> Self {
        let derivative = |part: &Self| part.derivative_by(operand);
        match self {
            Self::X | Self::Y => Self::Number(if self == operand { 1.0 } else { 0.0 }),
            Self::Parameter(..) | Self::Number(_) => Self::Number(0.0),
            Self::Unary(kind, a) => times(slope(*kind, a), derivative(a)),
            Self::Binary(kind, parts) => {
                let [a, b] = &**parts;
                binary(*kind, a, b, derivative(a), derivative(b))
            }
            Self::If(compare, parts) => {
                let [a, b, then, otherwise] = &**parts;
                choose(*compare, a, b, derivative(then), derivative(otherwise))
            }
            Self::Call(function, parts, given) => {
                let term = |(at, part): (usize, &Self)| {
                    times(function.derivative(at).with(parts, given), derivative(part))
                };
                parts.iter().enumerate().map(term).fold(Self::Number(0.0), plus)
            }
        }
    }

    /// Returns the formula with `x`, `y` and the parameters replaced.
    pub(super) fn with(&self, operands: &[Self], parameters: &[Self]) -> Self {
        let part = |part: &Self| part.with(operands, parameters);
        let given = |list: &[Self], at: usize| list.get(at).cloned().unwrap_or(Self::Number(f64::NAN));
        match self {
            Self::X => given(operands, 0),
            Self::Y => given(operands, 1),
            Self::Parameter(at, _) => given(parameters, *at),
            Self::Number(number) => Self::Number(*number),
            Self::Unary(kind, a) => Self::Unary(*kind, Box::new(part(a))),
            Self::Binary(kind, parts) => Self::Binary(*kind, Box::new(parts.each_ref().map(part))),
            Self::If(compare, parts) => Self::If(*compare, Box::new(parts.each_ref().map(part))),
            Self::Call(function, parts, given) => {
                Self::Call(*function, parts.iter().map(part).collect(), given.iter().map(part).collect())
            }
        }
    }
}

/// Returns the derivative of a primitive of `a` and `b`, whose own derivatives are `da` and `db`.
fn binary(kind: Binary, a: &Formula, b: &Formula, da: Formula, db: Formula) -> Formula {
    let of = |kind: Binary, a: &Formula, b: Formula| Formula::binary(kind, a.clone(), b);
    let unary = |kind: Unary, x: Formula| Formula::Unary(kind, Box::new(x));
    match kind {
        Binary::Add => plus(da, db),
        Binary::Sub => minus(da, db),
        Binary::Mul => plus(times(da, b.clone()), times(a.clone(), db)),
        Binary::Div => {
            let square = times(b.clone(), b.clone());
            minus(over(da, b.clone()), over(times(a.clone(), db), square))
        }
        Binary::Min => choose(Compare::Less, a, b, da, db),
        Binary::Max => choose(Compare::Greater, a, b, da, db),
        Binary::Pow => {
            let less = times(b.clone(), of(Binary::Pow, a, minus(b.clone(), Formula::Number(1.0))));
            let log = times(of(Binary::Pow, a, b.clone()), unary(Unary::Log, a.clone()));
            plus(times(da, less), times(db, log))
        }
        Binary::Modulo => {
            let quotient = over(a.clone(), b.clone());
            minus(da, times(db, unary(Unary::Floor, quotient)))
        }
        Binary::Remainder => {
            let quotient = over(a.clone(), b.clone());
            let size = unary(Unary::Floor, unary(Unary::Abs, quotient.clone()));
            minus(da, times(db, times(unary(Unary::Sign, quotient), size)))
        }
        // Truth values and bits change in jumps.
        Binary::Equal
        | Binary::Greater
        | Binary::Less
        | Binary::GreaterEqual
        | Binary::LessEqual
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::ShiftLeft
        | Binary::ShiftRight => Formula::Number(0.0),
    }
}

/// Returns the derivative of a primitive at `a`.
fn slope(kind: Unary, a: &Formula) -> Formula {
    let one = || Formula::Number(1.0);
    let square = || times(a.clone(), a.clone());
    let of = |kind: Unary, x: Formula| Formula::Unary(kind, Box::new(x));
    match kind {
        Unary::Neg => Formula::Number(-1.0),
        Unary::Abs => of(Unary::Sign, a.clone()),
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => Formula::Number(0.0),
        Unary::Sqrt => over(Formula::Number(0.5), of(Unary::Sqrt, a.clone())),
        Unary::Exp | Unary::Expm1 => of(Unary::Exp, a.clone()),
        Unary::Log => over(one(), a.clone()),
        Unary::Log1p => over(one(), plus(one(), a.clone())),
        Unary::Sin => of(Unary::Cos, a.clone()),
        Unary::Cos => negative(of(Unary::Sin, a.clone())),
        Unary::Atan => over(one(), plus(one(), square())),
        Unary::Tanh => {
            let y = of(Unary::Tanh, a.clone());
            minus(one(), times(y.clone(), y))
        }
        Unary::Erf => {
            let bell = of(Unary::Exp, negative(square()));
            times(Formula::Number(std::f64::consts::FRAC_2_SQRT_PI), bell)
        }
    }
}

fn is(formula: &Formula, number: f64) -> bool {
    matches!(formula, Formula::Number(value) if *value == number)
}

fn negative(a: Formula) -> Formula {
    match a {
        Formula::Number(number) => Formula::Number(-number),
        Formula::Unary(Unary::Neg, a) => *a,
        a => Formula::Unary(Unary::Neg, Box::new(a)),
    }
}

fn plus(a: Formula, b: Formula) -> Formula {
    match (is(&a, 0.0), is(&b, 0.0)) {
        (true, _) => b,
        (_, true) => a,
        _ => Formula::binary(Binary::Add, a, b),
    }
}

fn minus(a: Formula, b: Formula) -> Formula {
    match (is(&a, 0.0), is(&b, 0.0)) {
        (true, _) => negative(b),
        (_, true) => a,
        _ => Formula::binary(Binary::Sub, a, b),
    }
}

fn times(a: Formula, b: Formula) -> Formula {
    match (a, b) {
        (a, b) if is(&a, 0.0) || is(&b, 0.0) => Formula::Number(0.0),
        (a, b) if is(&a, 1.0) => b,
        (a, b) if is(&b, 1.0) => a,
        (a, b) if is(&a, -1.0) => negative(b),
        (a, b) if is(&b, -1.0) => negative(a),
        (a, b) => Formula::binary(Binary::Mul, a, b),
    }
}

fn over(a: Formula, b: Formula) -> Formula {
    match (is(&a, 0.0), is(&b, 1.0)) {
        (true, _) => a,
        (_, true) => a,
        _ => Formula::binary(Binary::Div, a, b),
    }
}

fn choose(compare: Compare, a: &Formula, b: &Formula, then: Formula, otherwise: Formula) -> Formula {
    if then == otherwise { then } else { Formula::choice(compare, a.clone(), b.clone(), then, otherwise) }
}

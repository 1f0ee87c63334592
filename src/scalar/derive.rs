//! Derivatives of formulas.

use super::{Binary, Compare, Formula, Unary};

impl Formula {
    /// Returns the derivative with respect to `x`, without terms that are 0 and factors that are 1. At a corner it is
    /// the slope of one side.
    pub fn derivative(&self) -> Self {
        match self {
            Self::X => Self::Number(1.0),
            Self::Parameter(..) | Self::Number(_) => Self::Number(0.0),
            Self::Unary(kind, a) => times(slope(*kind, a), a.derivative()),
            Self::Binary(kind, parts) => {
                let [a, b] = &**parts;
                let (da, db) = (a.derivative(), b.derivative());
                match kind {
                    Binary::Add => plus(da, db),
                    Binary::Sub => minus(da, db),
                    Binary::Mul => plus(times(da, b.clone()), times(a.clone(), db)),
                    Binary::Div if !b.depends_on_x() => over(da, b.clone()),
                    Binary::Div => {
                        let square = times(b.clone(), b.clone());
                        minus(over(da, b.clone()), over(times(a.clone(), db), square))
                    }
                    Binary::Min => choose(Compare::Less, a, b, da, db),
                    Binary::Max => choose(Compare::Greater, a, b, da, db),
                }
            }
            Self::If(compare, parts) => {
                let [a, b, then, otherwise] = &**parts;
                choose(*compare, a, b, then.derivative(), otherwise.derivative())
            }
            Self::Call(function, a, given) => times(function.derivative().with(a, given), a.derivative()),
        }
    }

    /// Returns the formula with `x` and the parameters replaced.
    pub(super) fn with(&self, x: &Self, parameters: &[Self]) -> Self {
        let part = |part: &Self| part.with(x, parameters);
        match self {
            Self::X => x.clone(),
            Self::Parameter(at, _) => parameters.get(*at).cloned().unwrap_or(Self::Number(f64::NAN)),
            Self::Number(number) => Self::Number(*number),
            Self::Unary(kind, a) => Self::Unary(*kind, Box::new(part(a))),
            Self::Binary(kind, parts) => Self::Binary(*kind, Box::new(parts.each_ref().map(part))),
            Self::If(compare, parts) => Self::If(*compare, Box::new(parts.each_ref().map(part))),
            Self::Call(function, a, given) => {
                Self::Call(*function, Box::new(part(a)), given.iter().map(part).collect())
            }
        }
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

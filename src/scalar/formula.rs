//! The syntax tree of formulas.

use super::{Binary, Compare, Function, Unary};
use std::fmt;

/// A formula of `x` and of the parameters of its function.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// What the function is given.
    X,
    /// The parameter at this place, and its name.
    Parameter(usize, &'static str),
    /// A number.
    Number(f64),
    /// A primitive of one number.
    Unary(Unary, Box<Formula>),
    /// A primitive of two numbers.
    Binary(Binary, Box<[Formula; 2]>),
    /// The third where the first two compare so, else the fourth.
    If(Compare, Box<[Formula; 4]>),
    /// Another function of the first, with these parameters, of which none depends on `x`.
    Call(Function, Box<Formula>, Vec<Formula>),
}

impl Formula {
    /// A primitive of two numbers.
    pub(super) fn binary(kind: Binary, a: Self, b: Self) -> Self {
        Self::Binary(kind, Box::new([a, b]))
    }

    /// A choice.
    pub(super) fn choice(compare: Compare, a: Self, b: Self, then: Self, otherwise: Self) -> Self {
        Self::If(compare, Box::new([a, b, then, otherwise]))
    }

    /// The value, in double precision.
    pub fn evaluate(&self, parameters: &[f64], x: f64) -> f64 {
        let value = |part: &Self| part.evaluate(parameters, x);
        match self {
            Self::X => x,
            Self::Parameter(at, _) => parameters.get(*at).copied().unwrap_or(f64::NAN),
            Self::Number(number) => *number,
            Self::Unary(kind, a) => kind.evaluate(value(a)),
            Self::Binary(kind, parts) => kind.evaluate(value(&parts[0]), value(&parts[1])),
            Self::If(compare, parts) => {
                let holds = compare.holds(&value(&parts[0]), &value(&parts[1]));
                value(&parts[if holds { 2 } else { 3 }])
            }
            Self::Call(function, a, given) => {
                let given: Vec<f64> = given.iter().map(value).collect();
                function.evaluate(&given, value(a))
            }
        }
    }

    /// The value of an integer where it is one whatever the integer is, and takes no parameters; wraps as the hardware
    /// does.
    pub fn evaluate_integer(&self, x: i64) -> Option<i64> {
        let value = |part: &Self| part.evaluate_integer(x);
        Some(match self {
            Self::X => x,
            #[allow(clippy::cast_possible_truncation)]
            Self::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => *number as i64,
            Self::Unary(Unary::Neg, a) => value(a)?.wrapping_neg(),
            Self::Unary(Unary::Abs, a) => value(a)?.wrapping_abs(),
            Self::Unary(Unary::Sign, a) => value(a)?.signum(),
            Self::Unary(Unary::Floor | Unary::Ceil | Unary::Round, a) => value(a)?,
            Self::Binary(Binary::Min, parts) => value(&parts[0])?.min(value(&parts[1])?),
            Self::Binary(Binary::Max, parts) => value(&parts[0])?.max(value(&parts[1])?),
            _ => return None,
        })
    }

    /// Whether it chooses among `x`, what is near it, and numbers: so an integer that it keeps goes through no
    /// arithmetic.
    pub fn chooses(&self) -> bool {
        match self {
            Self::X | Self::Parameter(..) | Self::Number(_) => true,
            Self::Unary(Unary::Floor | Unary::Ceil | Unary::Round, a) => a.chooses(),
            Self::Binary(Binary::Min | Binary::Max, parts) => parts.iter().all(Self::chooses),
            Self::If(_, parts) => parts.iter().all(Self::chooses),
            Self::Unary(..) | Self::Binary(..) | Self::Call(..) => false,
        }
    }

    /// Whether `x` is part of it.
    pub(super) fn depends_on_x(&self) -> bool {
        match self {
            Self::X => true,
            Self::Parameter(..) | Self::Number(_) => false,
            Self::Unary(_, a) | Self::Call(_, a, _) => a.depends_on_x(),
            Self::Binary(_, parts) => parts.iter().any(Self::depends_on_x),
            Self::If(_, parts) => parts.iter().any(Self::depends_on_x),
        }
    }

    /// How tightly it holds together when written: sums, products, signs, and the rest.
    fn tightness(&self) -> u8 {
        match self {
            Self::Binary(Binary::Add | Binary::Sub, _) => 0,
            Self::Binary(Binary::Mul | Binary::Div, _) => 1,
            Self::Unary(Unary::Neg, _) => 2,
            Self::Number(number) if number.is_sign_negative() => 2,
            _ => 3,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        if self.tightness() < least {
            return write!(f, "({self})");
        }
        write!(f, "{self}")
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X => f.write_str("x"),
            Self::Parameter(_, name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
            Self::Unary(Unary::Neg, a) => {
                f.write_str("-")?;
                a.write(f, 3)
            }
            Self::Unary(kind, a) => write!(f, "{}({a})", kind.name()),
            Self::Binary(kind @ (Binary::Min | Binary::Max), parts) => {
                write!(f, "{}({}, {})", kind.name(), parts[0], parts[1])
            }
            Self::Binary(kind, parts) => {
                let (sign, own) = match kind {
                    Binary::Add => ("+", 0),
                    Binary::Sub => ("-", 0),
                    Binary::Mul => ("*", 1),
                    _ => ("/", 1),
                };
                parts[0].write(f, own)?;
                write!(f, " {sign} ")?;
                parts[1].write(f, own + 1)
            }
            Self::If(compare, parts) => {
                let [a, b, then, otherwise] = &**parts;
                write!(f, "if({a} {} {b}, {then}, {otherwise})", compare.sign())
            }
            Self::Call(function, a, given) => {
                write!(f, "{function}({a}")?;
                given.iter().try_for_each(|value| write!(f, ", {value}"))?;
                f.write_str(")")
            }
        }
    }
}

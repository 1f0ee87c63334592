//! The syntax tree of formulas.

use super::{Binary, Compare, Function, Unary};
use std::fmt;

/// A formula of `x` and of the parameters of its function.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// The argument of the function.
    X,
    /// A parameter: its index and its name.
    Parameter(usize, &'static str),
    /// A constant.
    Number(f64),
    /// A primitive of one operand.
    Unary(Unary, Box<Formula>),
    /// A primitive of two operands.
    Binary(Binary, Box<[Formula; 2]>),
    /// A choice: the third operand if the comparison of the first two holds, otherwise the fourth.
    If(Compare, Box<[Formula; 4]>),
    /// Another function applied to a formula, with these parameters. No parameter may depend on `x`.
    Call(Function, Box<Formula>, Vec<Formula>),
}

impl Formula {
    /// A primitive of two operands.
    pub(super) fn binary(kind: Binary, a: Self, b: Self) -> Self {
        Self::Binary(kind, Box::new([a, b]))
    }

    /// Returns a choice between two formulas.
    pub(super) fn choice(compare: Compare, a: Self, b: Self, then: Self, otherwise: Self) -> Self {
        Self::If(compare, Box::new([a, b, then, otherwise]))
    }

    /// Returns the value, in double precision.
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

    /// Returns the value for an integer, if it is an integer for every argument and the formula has no parameters.
    /// It is exact for all integers of 64 bits, and the caller cuts it to the width of its type.
    pub fn evaluate_integer(&self, x: i128) -> Option<i128> {
        let value = |part: &Self| part.evaluate_integer(x);
        Some(match self {
            Self::X => x,
            #[allow(clippy::cast_possible_truncation)]
            Self::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => *number as i128,
            Self::Unary(Unary::Neg, a) => value(a)?.wrapping_neg(),
            Self::Unary(Unary::Abs, a) => value(a)?.wrapping_abs(),
            Self::Unary(Unary::Sign, a) => value(a)?.signum(),
            Self::Unary(Unary::Floor | Unary::Ceil | Unary::Round, a) => value(a)?,
            Self::Binary(Binary::Min, parts) => value(&parts[0])?.min(value(&parts[1])?),
            Self::Binary(Binary::Max, parts) => value(&parts[0])?.max(value(&parts[1])?),
            _ => return None,
        })
    }

    /// Returns whether the formula only chooses among `x`, values close to it, and constants, so that no arithmetic
    /// changes an integer that it keeps.
    pub fn chooses(&self) -> bool {
        match self {
            Self::X | Self::Parameter(..) | Self::Number(_) => true,
            Self::Unary(Unary::Floor | Unary::Ceil | Unary::Round, a) => a.chooses(),
            Self::Binary(Binary::Min | Binary::Max, parts) => parts.iter().all(Self::chooses),
            Self::If(_, parts) => parts.iter().all(Self::chooses),
            Self::Unary(..) | Self::Binary(..) | Self::Call(..) => false,
        }
    }

    /// Returns whether the formula contains `x`.
    pub(super) fn depends_on_x(&self) -> bool {
        match self {
            Self::X => true,
            Self::Parameter(..) | Self::Number(_) => false,
            Self::Unary(_, a) | Self::Call(_, a, _) => a.depends_on_x(),
            Self::Binary(_, parts) => parts.iter().any(Self::depends_on_x),
            Self::If(_, parts) => parts.iter().any(Self::depends_on_x),
        }
    }

    /// Returns the precedence of the outermost operation in text: that of sums, products, signs, or the rest.
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

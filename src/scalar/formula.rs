//! The syntax tree of formulas.

use super::{Binary, Compare, Function, Unary};
use std::fmt;

/// A formula of `x`, of `y` if its function takes two operands, and of the parameters of its function.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// The first operand of the function.
    X,
    /// The second operand of the function.
    Y,
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
    /// Another function applied to one or two formulas, with these parameters. No parameter may depend on `x` or
    /// `y`.
    Call(Function, Vec<Formula>, Vec<Formula>),
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

    /// Returns the value for these operands, in double precision. An operand that is not given is NaN.
    pub fn evaluate(&self, parameters: &[f64], operands: &[f64]) -> f64 {
        let value = |part: &Self| part.evaluate(parameters, operands);
        match self {
            Self::X => operands.first().copied().unwrap_or(f64::NAN),
            Self::Y => operands.get(1).copied().unwrap_or(f64::NAN),
            Self::Parameter(at, _) => parameters.get(*at).copied().unwrap_or(f64::NAN),
            Self::Number(number) => *number,
            Self::Unary(kind, a) => kind.evaluate(value(a)),
            Self::Binary(kind, parts) => kind.evaluate(value(&parts[0]), value(&parts[1])),
            Self::If(compare, parts) => {
                let holds = compare.holds(&value(&parts[0]), &value(&parts[1]));
                value(&parts[if holds { 2 } else { 3 }])
            }
            Self::Call(function, parts, given) => {
                let given: Vec<f64> = given.iter().map(value).collect();
                let parts: Vec<f64> = parts.iter().map(value).collect();
                function.formula().evaluate(&given, &parts)
            }
        }
    }

    /// Returns the value for integers, if it is an integer for all integers and the formula has no parameters.
    /// It is exact for all integers of 64 bits, and the caller cuts it to the width of its type.
    pub fn evaluate_integer(&self, operands: &[i128]) -> Option<i128> {
        let value = |part: &Self| part.evaluate_integer(operands);
        Some(match self {
            Self::X => *operands.first()?,
            Self::Y => *operands.get(1)?,
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
    /// changes an integer that it keeps. It has no `y`.
    pub fn chooses(&self) -> bool {
        match self {
            Self::X | Self::Parameter(..) | Self::Number(_) => true,
            Self::Unary(Unary::Floor | Unary::Ceil | Unary::Round, a) => a.chooses(),
            Self::Binary(Binary::Min | Binary::Max, parts) => parts.iter().all(Self::chooses),
            Self::If(_, parts) => parts.iter().all(Self::chooses),
            Self::Y | Self::Unary(..) | Self::Binary(..) | Self::Call(..) => false,
        }
    }

    /// Returns whether the formula contains this one, which is `x` or `y`.
    pub(super) fn contains(&self, operand: &Self) -> bool {
        let within = |part: &Self| part.contains(operand);
        match self {
            Self::X | Self::Y => self == operand,
            Self::Parameter(..) | Self::Number(_) => false,
            Self::Unary(_, a) => within(a),
            Self::Binary(_, parts) => parts.iter().any(within),
            Self::If(_, parts) => parts.iter().any(within),
            Self::Call(_, parts, _) => parts.iter().any(within),
        }
    }

    /// Returns whether the formula divides by `y`.
    pub fn divides(&self) -> bool {
        match self {
            Self::Binary(Binary::Div | Binary::Modulo | Binary::Remainder, parts) if parts[1] == Self::Y => {
                true
            }
            Self::X | Self::Y | Self::Parameter(..) | Self::Number(_) => false,
            Self::Unary(_, a) => a.divides(),
            Self::Binary(_, parts) => parts.iter().any(Self::divides),
            Self::If(_, parts) => parts.iter().any(Self::divides),
            Self::Call(_, parts, _) => parts.iter().any(Self::divides),
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
            Self::Y => f.write_str("y"),
            Self::Parameter(_, name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
            Self::Unary(Unary::Neg, a) => {
                f.write_str("-")?;
                a.write(f, 3)
            }
            Self::Unary(kind, a) => write!(f, "{}({a})", kind.name()),
            Self::Binary(kind, parts) => {
                let (sign, own) = match kind {
                    Binary::Add => ("+", 0),
                    Binary::Sub => ("-", 0),
                    Binary::Mul => ("*", 1),
                    Binary::Div => ("/", 1),
                    _ => return write!(f, "{}({}, {})", kind.name(), parts[0], parts[1]),
                };
                parts[0].write(f, own)?;
                write!(f, " {sign} ")?;
                parts[1].write(f, own + 1)
            }
            Self::If(compare, parts) => {
                let [a, b, then, otherwise] = &**parts;
                write!(f, "if({a} {} {b}, {then}, {otherwise})", compare.sign())
            }
            Self::Call(function, parts, given) => {
                let list: Vec<String> = parts.iter().chain(given).map(ToString::to_string).collect();
                write!(f, "{function}({})", list.join(", "))
            }
        }
    }
}

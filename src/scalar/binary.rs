//! The primitives of two operands, with their values for numbers and for integers.
//!
//! This is the reference of every op that is one of them. Backends have typed versions of their own, which tests
//! compare with these.

use super::{larger, smaller};

/// The element types that a primitive takes, and that of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Numbers of one type; the result is a number of that type.
    Numbers,
    /// Numbers or booleans of one type; the result is a boolean.
    Comparison,
    /// Numbers, booleans or strings; the result is a boolean.
    Equality,
    /// Booleans.
    Logic,
    /// Integers of one type.
    Bits,
}

macro_rules! binary {
    ($($kind:ident $name:literal $domain:ident $doc:literal |$a:ident, $b:ident| $float:expr, $int:expr;)*) => {
        /// A primitive of two operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Binary {
            $(#[doc = $doc] $kind,)*
        }

        impl Binary {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the name in formulas; that of `+ - * /` is the name of the op.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }

            /// Returns the element types.
            pub const fn domain(self) -> Domain {
                match self {
                    $(Self::$kind => Domain::$domain),*
                }
            }

            /// Returns the value for numbers. A boolean is 0 or 1, and bits are those of a number that is truncated
            /// to 64 bits.
            pub fn evaluate(self, a: f64, b: f64) -> f64 {
                match self {
                    $(Self::$kind => { let ($a, $b) = (a, b); $float }),*
                }
            }

            /// Returns the value for integers. The caller cuts it to the width of its type, so that it wraps.
            pub fn evaluate_integer(self, a: i128, b: i128) -> i128 {
                match self {
                    $(Self::$kind => { let ($a, $b) = (a, b); $int }),*
                }
            }
        }
    };
}
binary! {
    Add "add" Numbers "The sum." |a, b| a + b, a.wrapping_add(b);
    Sub "sub" Numbers "The difference." |a, b| a - b, a.wrapping_sub(b);
    Mul "mul" Numbers "The product." |a, b| a * b, a.wrapping_mul(b);
    Div "div" Numbers "The quotient. Of integers it is truncated towards zero, and 0 for a divisor of 0." |a, b| a / b, a.checked_div(b).unwrap_or(0);
    Min "min" Numbers "The minimum. NaN if an operand is NaN." |a, b| smaller(a, b), a.min(b);
    Max "max" Numbers "The maximum. NaN if an operand is NaN." |a, b| larger(a, b), a.max(b);
    Pow "pow" Numbers "The first operand to the power of the second." |a, b| a.powf(b), integer_power(a, b);
    Modulo "modulo" Numbers "The remainder with the sign of the divisor." |a, b| float_modulo(a, b), modulo(a, b);
    Remainder "remainder" Numbers "The remainder with the sign of the dividend, as in C." |a, b| a % b, a.checked_rem(b).unwrap_or(0);
    Equal "equal" Equality "Whether they are equal." |a, b| truth(a == b), i128::from(a == b);
    Greater "greater" Comparison "Whether the first is greater." |a, b| truth(a > b), i128::from(a > b);
    Less "less" Comparison "Whether the first is less." |a, b| truth(a < b), i128::from(a < b);
    GreaterEqual "greater-equal" Comparison "Whether the first is not less." |a, b| truth(a >= b), i128::from(a >= b);
    LessEqual "less-equal" Comparison "Whether the first is not greater." |a, b| truth(a <= b), i128::from(a <= b);
    And "and" Logic "Whether both are true." |a, b| truth(a != 0.0 && b != 0.0), i128::from(a != 0 && b != 0);
    Or "or" Logic "Whether at least one is true." |a, b| truth(a != 0.0 || b != 0.0), i128::from(a != 0 || b != 0);
    Xor "xor" Logic "Whether exactly one is true." |a, b| truth((a != 0.0) != (b != 0.0)), i128::from((a != 0) != (b != 0));
    BitAnd "bit-and" Bits "The bits that both have." |a, b| bits(Self::BitAnd, a, b), a & b;
    BitOr "bit-or" Bits "The bits that either has." |a, b| bits(Self::BitOr, a, b), a | b;
    BitXor "bit-xor" Bits "The bits that only one has." |a, b| bits(Self::BitXor, a, b), a ^ b;
    ShiftLeft "shift-left" Bits "The bits of the first moved up; none is left if the second is negative." |a, b| bits(Self::ShiftLeft, a, b), shift_left(a, b);
    ShiftRight "shift-right" Bits "The bits of the first moved down; only the sign is left if the second is negative." |a, b| bits(Self::ShiftRight, a, b), a >> u32::try_from(b).unwrap_or(64).min(64);
}

impl Binary {
    /// Returns the primitive of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn bits(kind: Binary, a: f64, b: f64) -> f64 {
    kind.evaluate_integer(i128::from(a as i64), i128::from(b as i64)) as i64 as f64
}

fn shift_left(a: i128, places: i128) -> i128 {
    u32::try_from(places).ok().filter(|places| *places < 64).map_or(0, |places| a << places)
}

/// As Python's `%`: a finite number modulo an infinity of the other sign is that infinity, and a zero has the sign of the
/// divisor.
fn float_modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        0.0_f64.copysign(b)
    } else if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

fn modulo(a: i128, b: i128) -> i128 {
    a.checked_rem(b).map_or(0, |rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// A negative power is rounded towards zero, as a division is; that of zero is zero.
fn integer_power(base: i128, exponent: i128) -> i128 {
    match (u64::try_from(exponent), base) {
        (Ok(exponent), _) => wrapping_power(base, exponent),
        (Err(_), 1) => 1,
        (Err(_), -1) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (Err(_), _) => 0,
    }
}

fn wrapping_power(mut base: i128, mut exponent: u64) -> i128 {
    let mut power = 1_i128;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent /= 2;
    }
    power
}

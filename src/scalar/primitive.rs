//! The primitives of one operand and the comparisons, with their values in double precision.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

macro_rules! unary {
    ($($kind:ident $name:literal $doc:literal |$x:ident| $value:expr;)*) => {
        /// A primitive of one operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Unary {
            $(#[doc = $doc] $kind,)*
        }

        impl Unary {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the name in formulas; `neg` is written as `-`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }

            /// Returns the value.
            pub fn evaluate(self, x: f64) -> f64 {
                match self {
                    $(Self::$kind => { let $x = x; $value }),*
                }
            }
        }
    };
}
unary! {
    Neg "neg" "The negative." |x| -x;
    Abs "abs" "The absolute value." |x| x.abs();
    Sign "sign" "-1, 0 or 1; what is not a number stays." |x| if x.is_nan() { x } else { f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)) };
    Floor "floor" "The largest integer not above it." |x| x.floor();
    Ceil "ceil" "The smallest integer not below it." |x| x.ceil();
    Round "round" "The nearest integer, halves to even." |x| x.round_ties_even();
    Sqrt "sqrt" "The square root." |x| x.sqrt();
    Exp "exp" "e to its power." |x| x.exp();
    Expm1 "expm1" "e to its power, less one, precise near zero." |x| x.exp_m1();
    Log "log" "The natural logarithm." |x| x.ln();
    Log1p "log1p" "The natural logarithm of one more, precise near zero." |x| x.ln_1p();
    Sin "sin" "The sine." |x| x.sin();
    Cos "cos" "The cosine." |x| x.cos();
    Atan "atan" "The angle with this tangent." |x| x.atan();
    Tanh "tanh" "The hyperbolic tangent." |x| x.tanh();
    Erf "erf" "The error function." |x| erf(x);
}

impl Unary {
    /// Returns the primitive of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

/// A comparison; it does not hold if a side is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `==`
    Equal,
}

impl Compare {
    /// Returns the sign in formulas.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "==",
        }
    }

    /// Returns the name of the binary op that computes the same.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::LessEqual => "less-equal",
            Self::Greater => "greater",
            Self::GreaterEqual => "greater-equal",
            Self::Equal => "equal",
        }
    }

    /// Returns whether the comparison holds.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Self::Less => a < b,
            Self::LessEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterEqual => a >= b,
            Self::Equal => a == b,
        }
    }
}

/// Returns the error function: by a Taylor series near zero, and otherwise by a continued fraction of its complement
/// (Abramowitz and Stegun 7.1.6 and 7.1.14). The absolute error is below 1e-14.
#[must_use]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 6.0 {
        return x.signum();
    }
    if a < 2.5 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > 1e-17 * sum && n < 200.0 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        return x.signum() * sum * FRAC_2_SQRT_PI * (-a * a).exp();
    }
    let mut fraction = 0.0;
    for k in (1..=60).rev() {
        fraction = f64::from(k) / 2.0 / (a + fraction);
    }
    x.signum() * (1.0 - (-a * a).exp() / ((a + fraction) * PI.sqrt()))
}

/// Returns the larger of two numbers; NaN if either is NaN, as ONNX's reference does.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Returns the smaller of two numbers; NaN if either is NaN, as ONNX's reference does.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

//! The text of element types and scalar functions in CUDA C++.
//!
//! 16-bit floats are stored as bits and computed in `float`. Small integers are computed in `int` and truncated to
//! their width after each op, so that they wrap as in memory.

use ovolo::scalar::{Binary, Instruction, Unary};
use ovolo::tensor::DType;

/// Returns whether kernels read and write elements of a type.
pub(super) const fn supported(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64)
}

/// The type in which an element is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// A boolean.
    Bool,
    /// 32-bit integers and narrower ones.
    Int,
    /// 64-bit integers.
    Long,
    /// `float`, for 16-bit floats too.
    Float,
    /// `double`.
    Double,
}

impl Scalar {
    /// Returns the type in which elements of a type are computed.
    pub(super) const fn from_dtype(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool,
            DType::U8 | DType::I8 | DType::I32 => Self::Int,
            DType::I64 => Self::Long,
            DType::F16 | DType::BF16 | DType::F32 => Self::Float,
            // The other types are not `supported`.
            _ => Self::Double,
        }
    }

    /// Returns the name of the type.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Long => "long long",
            Self::Float => "float",
            Self::Double => "double",
        }
    }

    /// Returns the element type that can store its values unchanged.
    pub(super) const fn stored(self) -> DType {
        match self {
            Self::Bool => DType::Bool,
            Self::Int => DType::I32,
            Self::Long => DType::I64,
            Self::Float => DType::F32,
            Self::Double => DType::F64,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }

    /// Returns a constant of the type.
    pub(super) fn number(self, value: f64) -> String {
        #[allow(clippy::cast_possible_truncation)]
        match self {
            Self::Bool => (value != 0.0).to_string(),
            Self::Int => match value as i32 {
                i32::MIN => "(-2147483647 - 1)".to_owned(),
                value => format!("{value}"),
            },
            Self::Long => match value as i64 {
                i64::MIN => "(-9223372036854775807ll - 1ll)".to_owned(),
                value => format!("{value}ll"),
            },
            Self::Float if !(value as f32).is_finite() => {
                format!("__int_as_float(0x{:08x})", (value as f32).to_bits())
            }
            Self::Float => sign(format!("{:?}f", value as f32)),
            Self::Double if !value.is_finite() => {
                format!("__longlong_as_double(0x{:016x}ll)", value.to_bits())
            }
            Self::Double => sign(format!("{value:?}")),
        }
    }

    /// Returns a call of a function of the mathematical library.
    fn function(self, name: &str, arguments: &str) -> String {
        format!("{name}{}({arguments})", if self == Self::Float { "f" } else { "" })
    }
}

/// Puts negative numbers in parentheses, because `x --1.0f` is not valid.
fn sign(text: String) -> String {
    if text.starts_with('-') { format!("({text})") } else { text }
}

/// Returns the type in which an element is stored.
pub(super) const fn memory(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F16 => "Half",
        DType::BF16 => "Brain",
        DType::F32 => "float",
        _ => "double",
    }
}

/// Converts a stored element to the type in which it is computed.
pub(super) fn widened(dtype: DType, text: &str) -> String {
    match dtype {
        DType::Bool => format!("{text} != 0"),
        DType::F16 | DType::BF16 => format!("widen({text})"),
        _ => text.to_owned(),
    }
}

/// Converts a computed value to the type in which it is stored.
pub(super) fn narrowed(dtype: DType, text: &str) -> String {
    match dtype {
        DType::Bool => format!("{text} ? 1 : 0"),
        DType::F16 => format!("to_half({text})"),
        DType::BF16 => format!("to_brain({text})"),
        _ => text.to_owned(),
    }
}

/// Returns the part of the prelude that reads and writes a type.
pub(super) const fn prelude(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F16 => Some("half"),
        DType::BF16 => Some("brain"),
        _ => None,
    }
}

/// Truncates an `int` to the width of a narrower type.
fn cut(dtype: DType, text: String) -> String {
    match dtype {
        DType::U8 => format!("(unsigned char)({text})"),
        DType::I8 => format!("(signed char)({text})"),
        _ => text,
    }
}

/// Returns a unary elementwise op, and the part of the prelude that it uses.
pub(super) fn unary(
    op: &str,
    p: &[f64],
    dtype: DType,
    x: &str,
) -> Result<(String, Option<&'static str>), String> {
    let t = Scalar::from_dtype(dtype);
    if t.is_float() {
        return float(op, p, t, x)
            .map(|text| (text, None))
            .ok_or_else(|| format!("no kernel computes `{op}`"));
    }
    let zero = t.number(0.0);
    let text = match op {
        "not" => format!("!{x}"),
        "isnan" => "false".to_owned(),
        "floor" | "ceil" | "round" => x.to_owned(),
        "relu" => format!("{x} > {zero} ? {x} : {zero}"),
        "sign" => format!("({x} > {zero}) - ({x} < {zero})"),
        "neg" => cut(dtype, format!("({})(0u - (unsigned {}){x})", t.name(), t.name())),
        "abs" => cut(dtype, format!("{x} < {zero} ? ({})(0u - (unsigned {}){x}) : {x}", t.name(), t.name())),
        "clip" => {
            let wide = float(op, p, Scalar::Double, &format!("(double){x}")).unwrap_or_default();
            return Ok((cut(dtype, format!("clip_integer({x}, {wide})")), Some("integer")));
        }
        _ => {
            let wide = float(op, p, Scalar::Double, &format!("(double){x}"))
                .ok_or_else(|| format!("no kernel computes `{op}`"))?;
            return Ok((saturated(dtype, &format!("({wide})")), Some("saturate")));
        }
    };
    Ok((text, None))
}

/// Converts a floating-point number to an integer: rounded towards zero, limited to the range of the type, and zero
/// for NaN.
fn saturated(dtype: DType, text: &str) -> String {
    match dtype {
        DType::Bool => format!("{text} != 0"),
        DType::U8 => format!("to_integer<int>({text}, 0.0, 255.0)"),
        DType::I8 => format!("to_integer<int>({text}, -128.0, 127.0)"),
        DType::I32 => format!("to_integer<int>({text}, -2147483648.0, 2147483647.0)"),
        _ => format!("to_long({text})"),
    }
}

/// The functions whose text is written by hand in [`float`]. Tests compare them with their formulas.
pub(super) const OVERRIDES: &[&str] = &[
    "relu",
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "log",
    "sqrt",
    "neg",
    "abs",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "sign",
    "softplus",
    "softsign",
    "sin",
    "cos",
    "silu",
    "gelu",
    "gelu-tanh",
    "hard-swish",
    "mish",
    "leaky-relu",
    "elu",
    "hard-sigmoid",
    "clip",
];

/// Returns an instruction of a formula. Each operand is a name or a constant.
pub(super) fn instruction(instruction: &Instruction, t: Scalar, operands: &[String]) -> String {
    match (instruction, operands) {
        (Instruction::Unary(kind, _), [x]) => primitive(*kind, t, x),
        (Instruction::Binary(kind, _), [a, b]) => match kind {
            Binary::Add => format!("{a} + {b}"),
            Binary::Sub => format!("{a} - {b}"),
            Binary::Mul => format!("{a} * {b}"),
            Binary::Div => format!("{a} / {b}"),
            Binary::Min => t.function("fmin", &format!("{a}, {b}")),
            Binary::Max => t.function("fmax", &format!("{a}, {b}")),
        },
        (Instruction::If(compare, _), [a, b, then, otherwise]) => {
            format!("{a} {} {b} ? {then} : {otherwise}", compare.sign())
        }
        _ => unreachable!("an instruction has its operands"),
    }
}

/// Returns a primitive of one operand.
fn primitive(kind: Unary, t: Scalar, x: &str) -> String {
    match kind {
        Unary::Neg => format!("-({x})"),
        Unary::Abs => t.function("fabs", x),
        Unary::Sign => format!("({})(({x} > {}) - ({x} < {}))", t.name(), t.number(0.0), t.number(0.0)),
        Unary::Round => t.function("rint", x),
        Unary::Floor
        | Unary::Ceil
        | Unary::Sqrt
        | Unary::Exp
        | Unary::Expm1
        | Unary::Log
        | Unary::Log1p
        | Unary::Sin
        | Unary::Cos
        | Unary::Atan
        | Unary::Tanh
        | Unary::Erf => t.function(kind.name(), x),
    }
}

fn float(op: &str, p: &[f64], t: Scalar, x: &str) -> Option<String> {
    let n = |value: f64| t.number(value);
    let f = |name: &str, arguments: &str| t.function(name, arguments);
    let at = |index: usize| p.get(index).copied().unwrap_or(f64::NAN);
    let sigmoid = || format!("{} / ({} + {})", n(1.0), n(1.0), f("exp", &format!("-({x})")));
    let softplus = || {
        let tail = f("log1p", &f("exp", &format!("-{}", f("fabs", x))));
        format!("{} + {tail}", f("fmax", &format!("{x}, {}", n(0.0))))
    };
    let unit =
        |value: &str| f("fmin", &format!("{}, {}", f("fmax", &format!("{value}, {}", n(0.0))), n(1.0)));
    if let Some(kind) = Unary::find(op) {
        return Some(primitive(kind, t, x));
    }
    Some(match op {
        "isnan" => format!("{x} != {x}"),
        "relu" => f("fmax", &format!("{x}, {}", n(0.0))),
        "sigmoid" => sigmoid(),
        "reciprocal" => format!("{} / {x}", n(1.0)),
        "softplus" => softplus(),
        "softsign" => format!("{x} / ({} + {})", n(1.0), f("fabs", x)),
        "silu" => format!("{x} * ({})", sigmoid()),
        "gelu" => {
            let inner = f("erf", &format!("{x} * {}", n(std::f64::consts::FRAC_1_SQRT_2)));
            format!("{} * {x} * ({} + {inner})", n(0.5), n(1.0))
        }
        "gelu-tanh" => {
            let root = n((2.0 / std::f64::consts::PI).sqrt());
            let inner = f("tanh", &format!("{root} * ({x} + {} * {x} * {x} * {x})", n(0.044_715)));
            format!("{} * {x} * ({} + {inner})", n(0.5), n(1.0))
        }
        "hard-swish" => format!("{x} * {}", unit(&format!("{x} / {} + {}", n(6.0), n(0.5)))),
        "mish" => format!("{x} * {}", f("tanh", &softplus())),
        "leaky-relu" => format!("{x} < {} ? {} * {x} : {x}", n(0.0), n(at(0))),
        "elu" => format!("{x} < {} ? {} * {} : {x}", n(0.0), n(at(0)), f("expm1", x)),
        "hard-sigmoid" => unit(&format!("{} * {x} + {}", n(at(0)), n(at(1)))),
        "clip" => {
            let mut text = x.to_owned();
            if at(0) > f64::NEG_INFINITY {
                text = f("fmax", &format!("{text}, {}", n(at(0))));
            }
            if at(1) < f64::INFINITY {
                text = f("fmin", &format!("{text}, {}", n(at(1))));
            }
            text
        }
        _ => return None,
    })
}

/// Returns a binary elementwise op of two values of one type, and the part of the prelude that it uses.
pub(super) fn binary(
    op: &str,
    dtype: DType,
    a: &str,
    b: &str,
) -> Result<(String, Option<&'static str>), String> {
    let t = Scalar::from_dtype(dtype);
    let sign = match op {
        "equal" => "==",
        "greater" => ">",
        "less" => "<",
        "greater-equal" => ">=",
        "less-equal" => "<=",
        "and" => "&&",
        "or" => "||",
        "xor" => "!=",
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        _ => "",
    };
    let arithmetic = matches!(op, "add" | "sub" | "mul");
    if !sign.is_empty() && (!arithmetic || t.is_float()) {
        return Ok((format!("{a} {sign} {b}"), None));
    }
    if arithmetic {
        let name = t.name();
        return Ok((cut(dtype, format!("({name})((unsigned {name}){a} {sign} (unsigned {name}){b})")), None));
    }
    let both = format!("{a}, {b}");
    if t.is_float() {
        let text = match op {
            "div" => format!("{a} / {b}"),
            "min" => t.function("fmin", &both),
            "max" => t.function("fmax", &both),
            "pow" => t.function("pow", &both),
            "mod-c" => t.function("fmod", &both),
            "mod" => format!("{a} - {b} * {}", t.function("floor", &format!("{a} / {b}"))),
            _ => return Err(format!("no kernel computes `{op}`")),
        };
        return Ok((text, None));
    }
    let text = match op {
        "min" => return Ok((format!("{a} < {b} ? {a} : {b}"), None)),
        "max" => return Ok((format!("{a} > {b} ? {a} : {b}"), None)),
        "div" => format!("divide({both})"),
        "pow" => format!("power({both})"),
        "mod-c" => format!("remainder_c({both})"),
        "mod" => format!("remainder_floor({both})"),
        _ => return Err(format!("no kernel computes `{op}`")),
    };
    Ok((cut(dtype, text), Some("integer")))
}

/// Converts a value to another type. Also returns the part of the prelude that the conversion uses.
pub(super) fn cast(from: DType, to: DType, text: &str) -> (String, Option<&'static str>) {
    let (source, target) = (Scalar::from_dtype(from), Scalar::from_dtype(to));
    match (source.is_float(), target) {
        (true, Scalar::Int | Scalar::Long) => (saturated(to, &format!("(double){text}")), Some("saturate")),
        (_, Scalar::Bool) => (format!("{text} != {}", source.number(0.0)), None),
        _ if source == target && to.size() >= from.size() && target != Scalar::Int => (text.to_owned(), None),
        // A conversion to a 16-bit float rounds at once, and not only when the value is stored.
        (_, Scalar::Float) => match to {
            DType::F16 => (format!("widen(to_half((float){text}))"), Some("half")),
            DType::BF16 => (format!("widen(to_brain((float){text}))"), Some("brain")),
            _ => (format!("(float){text}"), None),
        },
        (_, target) => (cut(to, format!("({}){text}", target.name())), None),
    }
}

//! The text of element types and scalar functions in CUDA C++.
//!
//! 16-bit floats are stored as bits and computed in `float`. Small integers are computed in `int` and truncated to
//! their width after each op, so that they wrap as in memory.

use ovolo::scalar::{Binary, Domain, Instruction, Operand, Program, Unary};
use ovolo::tensor::DType;
use std::fmt;

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

/// A function of floating-point numbers whose text is not that of its formula.
pub(super) struct Override {
    /// The name of the function.
    pub function: &'static str,
    /// The text for values that have names, with the function's parameters.
    pub text: fn(Scalar, &[f64], &[String]) -> String,
}

impl PartialEq for Override {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function)
    }
}

macro_rules! library {
    ($name:literal) => {
        Override { function: $name, text: |t, _, x| t.function($name, &x[0]) }
    };
}

/// The functions that have a text of their own, with what it gains over the formula. Tests compare them with their
/// formulas.
pub(super) static OVERRIDES: &[Override] = &[
    // One reduction of the argument in place of two.
    library!("tan"),
    // One call in place of a division, a root and an arc tangent.
    library!("asin"),
    // The same.
    library!("acos"),
    // One exponential in place of two.
    library!("sinh"),
    library!("cosh"),
    // One logarithm in place of two: a formula computes both sides of a choice.
    library!("asinh"),
    library!("acosh"),
    // The sign is not computed apart.
    library!("atanh"),
];

/// Returns whether a program computes integers exactly with integers of its type, as the reference does: it only
/// rounds, compares, and finally negates.
pub(super) fn exact_on_integers(program: &Program) -> bool {
    let small = |operand: &Operand| match operand {
        Operand::Number(number) => number.fract() == 0.0 && number.abs() < f64::from(i32::MAX),
        _ => true,
    };
    let last = program.instructions.len().saturating_sub(1);
    let exact = |(at, instruction): (usize, &Instruction)| match instruction {
        Instruction::Unary(Unary::Neg | Unary::Abs, _) => at == last,
        Instruction::Unary(Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round, _)
        | Instruction::Binary(Binary::Min | Binary::Max, _) => true,
        _ => false,
    };
    program.instructions.iter().enumerate().all(exact)
        && program.instructions.iter().flat_map(Instruction::operands).all(small)
}

/// Returns an instruction of a formula, and the part of the prelude that it uses. Each operand is a name or a
/// constant. Of integers the instruction is one that [`exact_on_integers`] allows.
pub(super) fn instruction(
    instruction: &Instruction,
    dtype: DType,
    operands: &[String],
) -> (String, Option<&'static str>) {
    let t = Scalar::from_dtype(dtype);
    match (instruction, operands) {
        (Instruction::Unary(kind, _), [x]) if t.is_float() => (primitive(*kind, t, x), None),
        (Instruction::Unary(kind, _), [x]) => (integer(*kind, dtype, x), None),
        (Instruction::Binary(kind, _), [a, b]) if kind.domain() == Domain::Numbers => {
            binary(*kind, dtype, a, b)
        }
        (Instruction::Binary(kind, _), [a, b]) => truth_or_bits(*kind, t, a, b),
        (Instruction::If(compare, _), [a, b, then, otherwise]) => {
            (format!("{a} {} {b} ? {then} : {otherwise}", compare.sign()), None)
        }
        _ => unreachable!("an instruction has its operands"),
    }
}

/// Returns a primitive of one floating-point operand.
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

/// Returns a primitive of one integer.
fn integer(kind: Unary, dtype: DType, x: &str) -> String {
    let t = Scalar::from_dtype(dtype);
    let (zero, name) = (t.number(0.0), t.name());
    match kind {
        Unary::Neg => cut(dtype, format!("({name})(0u - (unsigned {name}){x})")),
        Unary::Abs => cut(dtype, format!("{x} < {zero} ? ({name})(0u - (unsigned {name}){x}) : {x}")),
        Unary::Sign => format!("({x} > {zero}) - ({x} < {zero})"),
        Unary::Floor | Unary::Ceil | Unary::Round => x.to_owned(),
        _ => unreachable!("the primitive gives no integer"),
    }
}

/// Returns a truth value or bits as a floating-point number, and the part of the prelude that it uses.
fn truth_or_bits(kind: Binary, t: Scalar, a: &str, b: &str) -> (String, Option<&'static str>) {
    let zero = t.number(0.0);
    let operand = |x: &str| match kind.domain() {
        Domain::Bits => format!("(long long){x}"),
        Domain::Logic => format!("({x} != {zero})"),
        _ => x.to_owned(),
    };
    let (text, need) = binary(kind, DType::I64, &operand(a), &operand(b));
    (format!("({})({text})", t.name()), need)
}

/// Returns a primitive of two values of one type, and the part of the prelude that it uses.
pub(super) fn binary(kind: Binary, dtype: DType, a: &str, b: &str) -> (String, Option<&'static str>) {
    let t = Scalar::from_dtype(dtype);
    let both = format!("{a}, {b}");
    let sign = |sign: &str| (format!("{a} {sign} {b}"), None);
    // Integers wrap, which only those without a sign may.
    let arithmetic = |sign: &str| match t.is_float() {
        true => (format!("{a} {sign} {b}"), None),
        false => {
            let name = t.name();
            (cut(dtype, format!("({name})((unsigned {name}){a} {sign} (unsigned {name}){b})")), None)
        }
    };
    let either = |float: &dyn Fn() -> String, integer: &str| match t.is_float() {
        true => (float(), None),
        false => (cut(dtype, format!("{integer}({both})")), Some("integer")),
    };
    match kind {
        Binary::Add => arithmetic("+"),
        Binary::Sub => arithmetic("-"),
        Binary::Mul => arithmetic("*"),
        Binary::Div => either(&|| format!("{a} / {b}"), "divide"),
        Binary::Pow => either(&|| t.function("pow", &both), "power"),
        Binary::Remainder => either(&|| t.function("fmod", &both), "remainder_c"),
        Binary::Modulo if t.is_float() => (format!("modulo({both})"), Some("modulo")),
        Binary::Modulo => either(&String::new, "remainder_floor"),
        Binary::Min if t.is_float() => (t.function("fmin", &both), None),
        Binary::Max if t.is_float() => (t.function("fmax", &both), None),
        Binary::Min => (format!("{a} < {b} ? {a} : {b}"), None),
        Binary::Max => (format!("{a} > {b} ? {a} : {b}"), None),
        Binary::Equal => sign("=="),
        Binary::Greater => sign(">"),
        Binary::Less => sign("<"),
        Binary::GreaterEqual => sign(">="),
        Binary::LessEqual => sign("<="),
        Binary::And => sign("&&"),
        Binary::Or => sign("||"),
        Binary::Xor => sign("!="),
        Binary::BitAnd => sign("&"),
        Binary::BitOr => sign("|"),
        Binary::BitXor => sign("^"),
        Binary::ShiftLeft => (cut(dtype, format!("shift_left({both})")), Some("bits")),
        Binary::ShiftRight => (cut(dtype, format!("shift_right({both})")), Some("bits")),
    }
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

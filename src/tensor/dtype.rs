//! Element types: their names, their sizes, and what kind of number they hold.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of one element of a tensor.
///
/// An element takes at least one byte in memory. The types of 2 and 4 bits lie in the low bits of their byte, and the
/// high bits are zero; only files pack several of them into a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DType {
    /// One byte, zero or one.
    Bool,
    /// Unsigned 2-bit integer.
    U2,
    /// Unsigned 4-bit integer.
    U4,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 2-bit integer.
    I2,
    /// Signed 4-bit integer.
    I4,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Float of 4 bits: 2 for the exponent, 1 for the fraction. It has neither infinities nor NaN.
    F4E2M1,
    /// Float of 8 bits: 4 for the exponent, 3 for the fraction. It has no infinities, and one NaN of each sign.
    F8E4M3FN,
    /// Float of 8 bits: 4 for the exponent, 3 for the fraction. It has no infinities, no negative zero and one NaN.
    F8E4M3FNUZ,
    /// Float of 8 bits: 5 for the exponent, 2 for the fraction, as the upper half of a binary16.
    F8E5M2,
    /// Float of 8 bits: 5 for the exponent, 2 for the fraction. It has no infinities, no negative zero and one NaN.
    F8E5M2FNUZ,
    /// Power of two with an exponent of 8 bits, from -127 to 127, or NaN. It has neither sign nor zero.
    F8E8M0,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Complex number of two binary32, the real part first.
    C64,
    /// Complex number of two binary64, the real part first.
    C128,
    /// A string. The element is a handle of its text.
    Text,
}

impl DType {
    /// Every element type, in the order in which messages list them.
    pub const ALL: [Self; 26] = [
        Self::Bool,
        Self::U2,
        Self::U4,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I2,
        Self::I4,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F4E2M1,
        Self::F8E4M3FN,
        Self::F8E4M3FNUZ,
        Self::F8E5M2,
        Self::F8E5M2FNUZ,
        Self::F8E8M0,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
        Self::Text,
    ];

    /// Names of element types in other systems.
    const ELSEWHERE: &[(&str, Self)] = &[
        ("float", Self::F32),
        ("float32", Self::F32),
        ("fp32", Self::F32),
        ("double", Self::F64),
        ("float64", Self::F64),
        ("half", Self::F16),
        ("float16", Self::F16),
        ("fp16", Self::F16),
        ("bfloat16", Self::BF16),
        ("int8", Self::I8),
        ("uint8", Self::U8),
        ("int", Self::I32),
        ("int32", Self::I32),
        ("long", Self::I64),
        ("int64", Self::I64),
        ("boolean", Self::Bool),
    ];

    /// Returns the type that other systems call so, in any case of letters.
    pub(crate) fn named_elsewhere(name: &str) -> Option<Self> {
        Self::ELSEWHERE.iter().find(|(theirs, _)| name.eq_ignore_ascii_case(theirs)).map(|(_, ours)| *ours)
    }

    /// Size of one element in memory, in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            _ if self.is_narrow() => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::C128 => 16,
            _ => 8,
        }
    }

    /// Size of one element in bits. Only the types of 2 and 4 bits have fewer bits than their bytes in memory.
    pub const fn bits(self) -> usize {
        match self {
            Self::U2 | Self::I2 => 2,
            Self::U4 | Self::I4 | Self::F4E2M1 => 4,
            _ => 8 * self.size(),
        }
    }

    /// Returns the name in text forms: `f32`, `i64`, `bool`, ….
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U2 => "u2",
            Self::U4 => "u4",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I2 => "i2",
            Self::I4 => "i4",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F4E2M1 => "f4e2m1",
            Self::F8E4M3FN => "f8e4m3fn",
            Self::F8E4M3FNUZ => "f8e4m3fnuz",
            Self::F8E5M2 => "f8e5m2",
            Self::F8E5M2FNUZ => "f8e5m2fnuz",
            Self::F8E8M0 => "f8e8m0",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::C64 => "c64",
            Self::C128 => "c128",
            Self::Text => "string",
        }
    }

    /// Returns whether the type is one of the floating-point types that ops compute with, which have 16 bits or more.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Returns whether the type is an integer of any width. A boolean is none.
    pub const fn is_integer(self) -> bool {
        self.integer_range().is_some() && !matches!(self, Self::Bool)
    }

    /// Returns whether ops compute with the type: an integer of 8 bits or more, or [a float](Self::is_float). Narrower
    /// numbers are stored, moved and converted only.
    pub const fn is_number(self) -> bool {
        self.is_float() || self.is_integer() && !self.is_narrow()
    }

    /// Returns whether the type is a number of at most 8 bits that no op computes with: an integer of 2 or 4 bits, or
    /// a float of 4 or 8.
    pub const fn is_narrow(self) -> bool {
        self.is_narrow_float() || matches!(self, Self::U2 | Self::I2 | Self::U4 | Self::I4)
    }

    /// Returns whether the type is a float of 4 or 8 bits.
    pub const fn is_narrow_float(self) -> bool {
        matches!(
            self,
            Self::F4E2M1 | Self::F8E4M3FN | Self::F8E4M3FNUZ | Self::F8E5M2 | Self::F8E5M2FNUZ | Self::F8E8M0
        )
    }

    /// Returns whether the type is a complex number.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// Returns the least and the largest value of an integer type or of booleans; `None` for other types.
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        let (signed, bits) = match self {
            Self::Bool => (false, 1),
            Self::U2 => (false, 2),
            Self::U4 => (false, 4),
            Self::U8 => (false, 8),
            Self::U16 => (false, 16),
            Self::U32 => (false, 32),
            Self::U64 => (false, 64),
            Self::I2 => (true, 2),
            Self::I4 => (true, 4),
            Self::I8 => (true, 8),
            Self::I16 => (true, 16),
            Self::I32 => (true, 32),
            Self::I64 => (true, 64),
            _ => return None,
        };
        Some(if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the name of an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;
    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        Self::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| UnknownDType(text.to_owned()))
    }
}

//! Floats of 4 and 8 bits: their values, and the conversion of wider numbers to them.
//!
//! The formats are those of ONNX and of the Python package `ml_dtypes`.

use super::DType;

/// What becomes of a number that is too large for a narrow float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The largest number of the same sign, also for infinities.
    #[default]
    Saturate,
    /// Infinity where the type has one, else NaN. A power of two that is too small becomes NaN as well.
    Infinite,
}

/// How a number is rounded to a power of two. Other narrow floats are always rounded to the nearest number, and to the
/// even one of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// To the next power of two that is not smaller.
    #[default]
    Up,
    /// To the next power of two that is not larger.
    Down,
    /// To the nearer one, and up in the middle.
    Nearest,
}

/// The format of a float with a sign, an exponent and a fraction.
struct Format {
    /// The bits of the fraction.
    fraction: u32,
    /// The exponent of numbers whose exponent bits are 0 or 1.
    least: i32,
    /// The largest finite number, without its sign.
    largest: u8,
    /// The place of the sign.
    sign: u8,
    /// Infinity, without its sign.
    infinity: Option<u8>,
    /// NaN, without its sign; `None` if it is the negative zero, or absent.
    nan: Option<u8>,
    /// Whether negative zero is a number.
    negative_zero: bool,
}

const fn format(dtype: DType) -> Format {
    let (fraction, least, largest, sign) = match dtype {
        DType::F4E2M1 => (1, 0, 0x07, 0x08),
        DType::F8E4M3FN => (3, -6, 0x7e, 0x80),
        DType::F8E4M3FNUZ => (3, -7, 0x7f, 0x80),
        DType::F8E5M2 => (2, -14, 0x7b, 0x80),
        _ => (2, -15, 0x7f, 0x80),
    };
    Format {
        fraction,
        least,
        largest,
        sign,
        infinity: if matches!(dtype, DType::F8E5M2) { Some(0x7c) } else { None },
        nan: match dtype {
            DType::F8E4M3FN => Some(0x7f),
            DType::F8E5M2 => Some(0x7e),
            _ => None,
        },
        negative_zero: !matches!(dtype, DType::F8E4M3FNUZ | DType::F8E5M2FNUZ),
    }
}

/// Returns the value of a narrow float.
pub(super) fn decode(dtype: DType, code: u8) -> f64 {
    if dtype == DType::F8E8M0 {
        return if code == 0xff { f64::NAN } else { 2_f64.powi(i32::from(code) - 127) };
    }
    let format = format(dtype);
    let (size, negative) = (code & (format.sign - 1), code & format.sign != 0);
    let magnitude = if size > format.largest || negative && size == 0 && !format.negative_zero {
        if format.infinity == Some(size) { f64::INFINITY } else { f64::NAN }
    } else {
        let exponent = i32::from(size >> format.fraction);
        let fraction = f64::from(size & ((1 << format.fraction) - 1));
        let (whole, exponent) = if exponent == 0 { (0.0, 0) } else { (1.0, exponent - 1) };
        let fraction = whole + fraction / f64::from(1_u8 << format.fraction);
        fraction * 2_f64.powi(format.least + exponent)
    };
    if negative { -magnitude } else { magnitude }
}

/// Returns the narrow float that stands for a number.
pub(super) fn encode(dtype: DType, value: f64, overflow: Overflow, rounding: Rounding) -> u8 {
    if dtype == DType::F8E8M0 {
        return encode_power(value, overflow, rounding);
    }
    let format = format(dtype);
    let sign = if value.is_sign_negative() { format.sign } else { 0 };
    // Where the negative zero is no number, it stands for NaN.
    let none =
        if format.negative_zero { format.nan.map_or(format.sign, |nan| nan | sign) } else { format.sign };
    if value.is_nan() {
        return none;
    }
    match (magnitude(&format, value.abs()), overflow) {
        (Some(0), _) if !format.negative_zero => 0,
        (Some(size), _) => size | sign,
        (None, Overflow::Infinite) => match format.infinity {
            Some(infinity) => infinity | sign,
            None if dtype == DType::F4E2M1 => format.largest | sign,
            None => none,
        },
        (None, Overflow::Saturate) => format.largest | sign,
    }
}

/// Returns the bits of the nearest number that is not negative; `None` if it is too large.
fn magnitude(format: &Format, value: f64) -> Option<u8> {
    if value.is_infinite() {
        return None;
    }
    let exponent = exponent(value).max(format.least);
    let fraction = i32::try_from(format.fraction).unwrap_or(0);
    // The number of steps is below 2^5, and the division is by a power of two, so only the rounding is inexact.
    let steps = (value / 2_f64.powi(exponent - fraction)).round_ties_even();
    let code = f64::from(exponent - format.least) * f64::from(1_u8 << format.fraction) + steps;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (code <= f64::from(format.largest)).then_some(code as u8)
}

/// Returns the exponent of the largest power of two that is at most a positive number.
fn exponent(value: f64) -> i32 {
    let bits = value.to_bits();
    // An `f64` below its normal range is below every narrow float's as well.
    i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0) - 1023
}

fn encode_power(value: f64, overflow: Overflow, rounding: Rounding) -> u8 {
    const NAN: u8 = 0xff;
    let saturate = overflow == Overflow::Saturate;
    if value.is_nan() || value < 0.0 {
        return NAN;
    }
    if value.is_infinite() {
        return if saturate { 0xfe } else { NAN };
    }
    let exponent = exponent(value);
    let above = match rounding {
        Rounding::Up => value > 2_f64.powi(exponent),
        Rounding::Down => false,
        Rounding::Nearest => value >= 1.5 * 2_f64.powi(exponent),
    };
    match exponent + i32::from(above) {
        small if small < -127 => {
            if saturate {
                0
            } else {
                NAN
            }
        }
        large if large > 127 => {
            if saturate {
                0xfe
            } else {
                NAN
            }
        }
        inside => u8::try_from(inside + 127).unwrap_or(NAN),
    }
}

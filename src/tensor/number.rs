//! Elements as numbers: the values of a tensor as `f64`, `i64` or `i128`, and tensors of such values.

use super::narrow::{self, Overflow, Rounding};
use super::text;
use super::{DType, Layout, Shape, Tensor, TensorType};

impl Tensor {
    /// Returns every logical element as `f64`, in row-major order. Integers beyond 2^53 are rounded; of a complex
    /// number it is the real part, and of a string the number that it says, or NaN.
    pub fn to_f64(&self) -> Vec<f64> {
        let plain = self.to_layout(&Layout::PLAIN);
        let dtype = self.ty().dtype;
        macro_rules! each {
            ($rust:ty, $convert:expr) => {
                plain.elements::<$rust>().iter().map($convert).collect()
            };
        }
        #[allow(clippy::cast_precision_loss)]
        match dtype {
            DType::Bool | DType::U8 => each!(u8, |&v| f64::from(v)),
            DType::U2 | DType::U4 | DType::I2 | DType::I4 => {
                each!(u8, |&v| f64::from(extended(dtype, v)))
            }
            DType::F4E2M1
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0 => each!(u8, |&v| narrow::decode(dtype, v)),
            DType::U16 => each!(u16, |&v| f64::from(v)),
            DType::U32 => each!(u32, |&v| f64::from(v)),
            DType::U64 => each!(u64, |&v| v as f64),
            DType::I8 => each!(i8, |&v| f64::from(v)),
            DType::I16 => each!(i16, |&v| f64::from(v)),
            DType::I32 => each!(i32, |&v| f64::from(v)),
            DType::I64 => each!(i64, |&v| v as f64),
            DType::F16 => each!(half::f16, |v| v.to_f64()),
            DType::BF16 => each!(half::bf16, |v| v.to_f64()),
            DType::F32 => each!(f32, |&v| f64::from(v)),
            DType::F64 => plain.elements::<f64>().to_vec(),
            DType::C64 => each!([f32; 2], |v| f64::from(v[0])),
            DType::C128 => each!([f64; 2], |v| v[0]),
            DType::Text => each!(super::Text, |v| text::number(&v.get())),
        }
    }

    /// Returns the elements of a tensor of integers or booleans as `i64`, in row-major order; `None` for other types.
    /// A `u64` beyond the range of `i64` becomes the largest `i64`.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        match self.ty().dtype {
            DType::I64 => Some(self.to_layout(&Layout::PLAIN).elements::<i64>().to_vec()),
            _ => Some(self.to_i128()?.into_iter().map(|v| i64::try_from(v).unwrap_or(i64::MAX)).collect()),
        }
    }

    /// Returns the elements of a tensor of integers or booleans, in row-major order; `None` for other types.
    pub fn to_i128(&self) -> Option<Vec<i128>> {
        let plain = self.to_layout(&Layout::PLAIN);
        let dtype = self.ty().dtype;
        macro_rules! each {
            ($rust:ty) => {
                plain.elements::<$rust>().iter().map(|&v| i128::from(v)).collect()
            };
        }
        Some(match dtype {
            DType::Bool | DType::U8 => each!(u8),
            DType::U2 | DType::U4 | DType::I2 | DType::I4 => {
                plain.elements::<u8>().iter().map(|&v| i128::from(extended(dtype, v))).collect()
            }
            DType::U16 => each!(u16),
            DType::U32 => each!(u32),
            DType::U64 => each!(u64),
            DType::I8 => each!(i8),
            DType::I16 => each!(i16),
            DType::I32 => each!(i32),
            DType::I64 => each!(i64),
            _ => return None,
        })
    }

    /// Makes a tensor in the default layout, of any element type, from `f64` values in row-major order. Integers and
    /// narrow floats saturate, but integers of 2 and 4 bits wrap, as in the package `ml_dtypes`; booleans are true if the value is not zero; a complex number has no imaginary part;
    /// a string is the shortest text of the number.
    pub fn from_f64(dtype: DType, shape: impl Into<Shape>, values: &[f64]) -> Self {
        Self::narrowed(dtype, shape, values, Overflow::Saturate, Rounding::Up)
    }

    /// Makes a tensor as [`Tensor::from_f64`] does, with these rules for narrow floats.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn narrowed(
        dtype: DType,
        shape: impl Into<Shape>,
        values: &[f64],
        overflow: Overflow,
        rounding: Rounding,
    ) -> Self {
        let mut tensor = Self::filled(dtype, shape.into(), values.len());
        macro_rules! fill {
            ($rust:ty, $convert:expr) => {
                for (to, &from) in tensor.elements_mut::<$rust>().iter_mut().zip(values) {
                    *to = $convert(from);
                }
            };
        }
        match dtype {
            DType::Bool => fill!(u8, |v: f64| u8::from(v != 0.0)),
            DType::U2 | DType::U4 | DType::I2 | DType::I4 => fill!(u8, |v: f64| cut(dtype, v as i128)),
            DType::F4E2M1
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0 => fill!(u8, |v| narrow::encode(dtype, v, overflow, rounding)),
            DType::U8 => fill!(u8, |v| v as u8),
            DType::U16 => fill!(u16, |v| v as u16),
            DType::U32 => fill!(u32, |v| v as u32),
            DType::U64 => fill!(u64, |v| v as u64),
            DType::I8 => fill!(i8, |v| v as i8),
            DType::I16 => fill!(i16, |v| v as i16),
            DType::I32 => fill!(i32, |v| v as i32),
            DType::I64 => fill!(i64, |v| v as i64),
            DType::F16 => fill!(half::f16, half::f16::from_f64),
            DType::BF16 => fill!(half::bf16, half::bf16::from_f64),
            DType::F32 => fill!(f32, |v| v as f32),
            DType::F64 => fill!(f64, |v| v),
            DType::C64 => fill!([f32; 2], |v| [v as f32, 0.0]),
            DType::C128 => fill!([f64; 2], |v| [v, 0.0]),
            DType::Text => fill!(super::Text, |v| super::Text::new(&text::shown(DType::F64, v))),
        }
        tensor
    }

    /// Makes a tensor in the default layout, of any element type, from integers in row-major order. Integers wrap as
    /// on the hardware; booleans are true if the value is not zero.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn from_i128(dtype: DType, shape: impl Into<Shape>, values: &[i128]) -> Self {
        let shape = shape.into();
        let mut tensor = Self::filled(dtype, shape.clone(), values.len());
        macro_rules! fill {
            ($rust:ty, $convert:expr) => {
                for (to, &from) in tensor.elements_mut::<$rust>().iter_mut().zip(values) {
                    *to = $convert(from);
                }
            };
        }
        match dtype {
            DType::Bool => fill!(u8, |v| u8::from(v != 0)),
            DType::U2 | DType::U4 | DType::I2 | DType::I4 => fill!(u8, |v| cut(dtype, v)),
            DType::U8 => fill!(u8, |v| v as u8),
            DType::U16 => fill!(u16, |v| v as u16),
            DType::U32 => fill!(u32, |v| v as u32),
            DType::U64 => fill!(u64, |v| v as u64),
            DType::I8 => fill!(i8, |v| v as i8),
            DType::I16 => fill!(i16, |v| v as i16),
            DType::I32 => fill!(i32, |v| v as i32),
            DType::I64 => fill!(i64, |v| v as i64),
            // From the integer itself, since a detour through `f64` would round twice.
            DType::F32 => fill!(f32, |v| v as f32),
            _ => return Self::from_f64(dtype, shape, &values.iter().map(|&v| v as f64).collect::<Vec<_>>()),
        }
        tensor
    }

    /// Makes a tensor of zeros for this many values.
    fn filled(dtype: DType, shape: Shape, values: usize) -> Self {
        let tensor = Self::zeros(TensorType::plain(dtype, shape));
        assert_eq!(values, tensor.ty().shape.count(), "values do not fill the shape {}", tensor.ty().shape);
        tensor
    }
}

/// Returns the value of an integer of 2 or 4 bits.
fn extended(dtype: DType, byte: u8) -> i8 {
    let unused = 8 - u32::try_from(dtype.bits()).unwrap_or(8);
    let high = byte << unused;
    match dtype {
        DType::I2 | DType::I4 => high.cast_signed() >> unused,
        _ => (high >> unused).cast_signed(),
    }
}

/// Returns the byte of an integer of 2 or 4 bits, of which the low bits are kept.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn cut(dtype: DType, value: i128) -> u8 {
    value as u8 & ((1 << dtype.bits()) - 1)
}

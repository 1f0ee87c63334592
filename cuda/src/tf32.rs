//! TF32: the format to which tensor cores round `f32` before they multiply. Sums and stored values are `f32`. A number in
//! the middle of two of TF32 becomes the even one here, and the larger one in generated kernels.

use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::op::{AttrDef, OpError};
use ovolo::tensor::{DType, Tensor};

/// The number of fraction bits of TF32; `f32` has 23.
const FRACTION_BITS: u32 = 10;

/// Returns the attribute that selects TF32.
pub(super) fn attribute() -> AttrDef {
    AttrDef::new("tf32", AttrKind::Int, Some(Attr::Int(0)), "1: the factors are first rounded to TF32")
}

/// Returns an error unless the attribute is valid for elements of a type.
pub(super) fn check(attrs: &Attrs, dtype: DType) -> Result<(), OpError> {
    match (attrs.expect_int("tf32"), dtype) {
        (0, _) | (1, DType::F32) => Ok(()),
        (1, other) => Err(OpError::kernel(format!("the element type is {other}: `tf32` needs f32"))),
        (other, _) => Err(OpError::attribute("tf32", format!("is {other}: it must be 0 or 1"))),
    }
}

/// Returns the operands, with the first two rounded if the attribute selects TF32 and they are `f32`.
pub(super) fn rounded(attrs: &Attrs, operands: &[&Tensor]) -> Vec<Tensor> {
    let rounds =
        |at: usize, one: &Tensor| at < 2 && attrs.expect_int("tf32") == 1 && one.ty().dtype == DType::F32;
    let one = |(at, one): (usize, &&Tensor)| if rounds(at, one) { round(one) } else { (*one).clone() };
    operands.iter().enumerate().map(one).collect()
}

/// Rounds each element to the nearest TF32 number, ties to even.
fn round(tensor: &Tensor) -> Tensor {
    let mut tensor = tensor.clone();
    for bytes in tensor.bytes_mut().chunks_exact_mut(4) {
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let below = 23 - FRACTION_BITS;
        let even = bits >> below & 1;
        // NaN and infinity stay as they are.
        if bits >> 23 & 0xff != 0xff {
            let near = bits.wrapping_add((1 << (below - 1)) - 1 + even) >> below << below;
            bytes.copy_from_slice(&near.to_le_bytes());
        }
    }
    tensor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_bits_are_kept_and_ties_round_to_even() {
        let unit = 1.0 / 1024.0;
        let values = [
            1.0,
            1.0 + unit,
            1.0 + unit / 2.0,
            1.0 + 1.5 * unit,
            -3.0 - 2.2 * unit,
            0.0,
            f64::INFINITY,
            1e-30,
        ];
        let rounded = round(&Tensor::from_f64(DType::F32, [values.len()], &values)).to_f64();
        assert_eq!(rounded[..4], [1.0, 1.0 + unit, 1.0, 1.0 + 2.0 * unit]);
        assert_eq!(rounded[4..7], [-3.0 - 2.0 * unit, 0.0, f64::INFINITY]);
        assert!(
            (rounded[7] / 1e-30 - 1.0).abs() < 1.0 / 2048.0 && rounded[7].to_bits() != 1e-30_f64.to_bits()
        );
    }
}

//! Checks of images in other layouts than the default one that lowered ops of several backends share.

use super::{Lowered, OpError};
use crate::attr::Attrs;
use crate::tensor::TensorType;

/// Infers the result of a concatenation of operands that have one layout. In other layouts than the default one,
/// operands are joined along channels, which need not fill whole blocks.
///
/// # Errors
/// An operand in another layout, or another axis than that of the channels.
pub fn concat(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let layout = &types[0].layout;
    for (operand, ty) in types.iter().enumerate() {
        if ty.layout != *layout {
            return Err(OpError::operand(operand, ty, format!(", operand 0 {}", types[0])));
        }
    }
    if !layout.is_plain() && attrs.expect_int("axis") != 1 {
        return Err(OpError::attribute("axis", format!("must be 1, that of the channels, in {layout}")));
    }
    Ok(op.logical_result(attrs, types)?.with_layout(layout.clone()))
}

/// Checks that a reduction in another layout than the default one is over rows and columns, and keeps these axes.
///
/// # Errors
/// If the reduction is another one.
pub fn reduces_pixels(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let pixels = attrs.expect_int("keepdims") != 0 && attrs.expect_ints("axes") == [2, 3];
    if types[0].layout.is_plain() || pixels {
        return Ok(());
    }
    Err(OpError::operand(0, types[0], ": in that layout only axes [2,3] are reduced, and kept"))
}

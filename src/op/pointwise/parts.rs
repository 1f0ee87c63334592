//! The work of the parts of a pointwise and depthwise convolution.

use super::between;
use crate::attr::Attrs;
use crate::op::window;
use crate::tensor::TensorType;

/// Floating-point operations of the parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Those of the 1x1 convolution.
    pub pointwise: f64,
    /// Those of the depthwise convolution.
    pub depthwise: f64,
}

/// Returns the work of each of the two convolutions.
pub fn parts(types: &[&TensorType], output: &TensorType) -> Parts {
    Parts {
        pointwise: window::flops_conv(&Attrs::new(), &types[..2], &between(types)),
        depthwise: window::flops_conv(&Attrs::new(), &[types[0], types[3]], output),
    }
}

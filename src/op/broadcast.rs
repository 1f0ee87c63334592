//! The common parts of elementwise ops: broadcast operands, and results in the layout of their type.

use super::{Flags, Independence, independence};
use crate::tensor::{Shape, Tensor, TensorType};

/// Maps the positions of a result to those of an operand that is broadcast to it.
pub(crate) struct Broadcast {
    shape: Shape,
    steps: Vec<usize>,
    same: bool,
}

impl Broadcast {
    pub fn new(operand: &Shape, result: &Shape) -> Self {
        let skip = result.rank() - operand.rank();
        let strides = operand.strides();
        let steps = (0..result.rank())
            .map(|axis| if axis < skip || operand[axis - skip] == 1 { 0 } else { strides[axis - skip] })
            .collect();
        Self { shape: result.clone(), steps, same: operand == result }
    }

    /// Returns the distance in the operand for one step along each axis of the result, in elements.
    pub fn steps(&self) -> Vec<isize> {
        self.steps.iter().map(|step| step.cast_signed()).collect()
    }

    /// Returns the operand's position for a row-major position of the result.
    pub fn at(&self, position: usize) -> usize {
        if self.same {
            return position;
        }
        let (mut rest, mut at) = (position, 0);
        for axis in (0..self.shape.rank()).rev() {
            at += rest % self.shape[axis] * self.steps[axis];
            rest /= self.shape[axis];
        }
        at
    }
}

pub(super) const FLAGS: Flags = Flags {
    elementwise: true,
    layout_agnostic: true,
    sparse: false,
    commutative: false,
    injective: false,
    transfer: None,
    inexact: false,
    function: None,
    independence: Independence::Along(independence::broadcast),
    demands: None,
};

/// Converts a result that was computed in the default layout to the layout of its type, so that padding is not part
/// of the computation.
pub(super) fn relayout(result: Tensor, ty: &TensorType) -> Tensor {
    result.to_layout(&ty.layout)
}

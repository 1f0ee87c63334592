//! Along which axes an op keeps positions independent of each other.
//!
//! The elements of a result at one position of such an axis are computed from the elements of an operand at the same
//! position of one of its axes, and from nothing at other positions; nor does the size of the axis matter. So rows of a
//! batch may be added or left out, and the other rows of the result stay as they are. Of such an axis it is said that the op
//! keeps it.

use super::{Flags, axis};
use crate::attr::{Attr, Attrs};
use crate::tensor::TensorType;

/// For each axis of each operand, the axis of the result whose positions are the same; `None` if the op mixes the
/// positions of the axis, or if it is not known that it keeps them apart.
///
/// It is called with attributes and types that the op accepts: the operands' types, and that of the result.
pub(crate) type Axes = fn(&Attrs, &[&TensorType], &TensorType) -> Vec<Vec<Option<usize>>>;

/// Along which axes an op keeps positions independent.
#[derive(Clone, Copy, Debug, Default)]
pub enum Independence {
    /// It is not known: the op is taken to mix everything. An elementwise op keeps all axes that are broadcast.
    #[default]
    Unknown,
    /// Along these axes.
    Along(Axes),
    /// Along these axes. The other axes of the first operand are read at positions that are elements of the second
    /// operand, or attributes if there is no second operand.
    Selecting(Axes),
    /// The result has the elements of its operand, in row-major order, in another shape.
    RowMajor,
}

impl Flags {
    /// Returns the flags of an op that keeps positions independent along these axes, and has no other property.
    pub fn independent(axes: Axes) -> Self {
        Self { independence: Independence::Along(axes), ..Self::default() }
    }
}

/// Returns no axis for any axis of an operand.
pub(super) fn none(ty: &TensorType) -> Vec<Option<usize>> {
    vec![None; ty.shape.rank()]
}

/// The axes of an operand become those of the result with the same distance from the last one.
pub(super) fn aligned(operand: &TensorType, result: &TensorType) -> Vec<Option<usize>> {
    let (own, whole) = (operand.shape.rank(), result.shape.rank());
    (0..own).map(|axis| (axis + whole).checked_sub(own)).collect()
}

/// All operands are broadcast to the result.
pub(super) fn broadcast(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    types.iter().map(|ty| aligned(ty, result)).collect()
}

/// All operands have the axes of the result, and only the one that the attribute `axis` names is mixed.
pub(super) fn except_axis(
    attrs: &Attrs,
    types: &[&TensorType],
    result: &TensorType,
) -> Vec<Vec<Option<usize>>> {
    let mixed = axis(attrs, "axis", result.shape.rank()).ok();
    types
        .iter()
        .map(|ty| (0..ty.shape.rank()).map(|own| (Some(own) != mixed).then_some(own)).collect())
        .collect()
}

/// The first axis of the first operand is kept, and everything else is mixed: that operand is a batch, and all others are
/// the same for each element of the batch.
pub(super) fn batch(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    leading(types, 1)
}

/// The first two axes of the first operand are kept: the channels of images are not mixed.
pub(super) fn images(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    leading(types, 2)
}

fn leading(types: &[&TensorType], count: usize) -> Vec<Vec<Option<usize>>> {
    let keep = |operand: usize, own: usize| (operand == 0 && own < count).then_some(own);
    let axes =
        |(operand, ty): (usize, &&TensorType)| (0..ty.shape.rank()).map(|own| keep(operand, own)).collect();
    types.iter().enumerate().map(axes).collect()
}

/// The axes of a reduction: those that the attribute `axes` or `axis` does not name. `keepdims` tells whether the
/// others are left out of the result.
pub(super) fn reduction(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let reduced: Vec<usize> = match (attrs.get("axes"), attrs.get("axis")) {
        (Some(Attr::Ints(axes)), _) => axes.iter().filter_map(|axis| usize::try_from(*axis).ok()).collect(),
        (_, Some(Attr::Int(axis))) => usize::try_from(*axis).into_iter().collect(),
        _ => return types.iter().map(|ty| none(ty)).collect(),
    };
    let kept = attrs.get("keepdims") != Some(&Attr::Int(0));
    let place = |own: usize| {
        let before = if kept { 0 } else { reduced.iter().filter(|axis| **axis < own).count() };
        (!reduced.contains(&own)).then_some(own - before)
    };
    types.iter().map(|ty| (0..ty.shape.rank()).map(place).collect()).collect()
}

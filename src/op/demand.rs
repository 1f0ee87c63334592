//! What an op demands of the elements of its operands, beside their types.
//!
//! Element types and shapes are known when a plan is made; elements often only when it runs. An op says in
//! `Flags::demands` what they must be, and a session asks before each step of such an op, so that an index out of
//! range or a division by zero is an error which names the step, whichever kernel was chosen. The kernels themselves
//! stay inside their buffers in any case.

use super::Op;
use crate::attr::Attrs;
use crate::tensor::{DType, TensorType};

/// An element that does not meet a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmet {
    /// An index is out of range.
    #[error(
        "index {index} (element {element} of the indices) is out of range for dimension {axis}, which is {size}"
    )]
    Index {
        /// The index.
        index: i64,
        /// Its position among the indices.
        element: usize,
        /// The dimension that it belongs to.
        axis: usize,
        /// The size of that dimension.
        size: usize,
    },
    /// A number is negative or too large.
    #[error("the {what} {number} (element {element} of that operand) must be between 0 and {most}")]
    Outside {
        /// What the number is.
        what: &'static str,
        /// The number.
        number: i64,
        /// Its position in the operand.
        element: usize,
        /// The largest number that is allowed.
        most: i64,
    },
    /// An integer is divided by zero.
    #[error("division of integers by zero: element {element} of the divisor is 0")]
    Zero {
        /// The position of the zero in the divisor.
        element: usize,
    },
}

/// Says for operands of these types which one must have which elements; `None` if any elements will do.
pub type DemandOf = fn(&Attrs, &[&TensorType]) -> Option<(usize, Elements)>;

/// What elements of integers must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Positions along an axis of this size; negative ones count from the end.
    Axis {
        /// The axis.
        axis: usize,
        /// Its size.
        size: usize,
    },
    /// Groups of positions along adjacent axes; negative ones count from the end.
    Axes {
        /// The first of these axes.
        first: usize,
        /// Their sizes.
        sizes: Vec<usize>,
    },
    /// Numbers from 0 to `most`.
    Number {
        /// What such a number is, for messages.
        what: &'static str,
        /// The largest one.
        most: i64,
    },
    /// Any numbers but zero.
    Divisor,
}

impl Elements {
    /// Positions along an axis of an operand; `None` if it does not have that axis.
    pub(super) fn along_axis(axis: Option<usize>, ty: &TensorType) -> Option<Self> {
        let axis = axis?;
        Some(Self::Axis { axis, size: *ty.shape.get(axis)? })
    }

    /// Groups of positions along the axes of an operand from `first` on: as many as the last axis of `groups` has.
    pub(super) fn along_axes(first: Option<usize>, ty: &TensorType, groups: &TensorType) -> Option<Self> {
        let first = first?;
        let sizes = ty.shape.get(first..first + *groups.shape.last()?)?.to_vec();
        Some(Self::Axes { first, sizes })
    }

    /// Numbers from 0 to `most`; see [`Elements::Number`].
    pub(super) fn at_most(what: &'static str, most: usize) -> Self {
        Self::Number { what, most: i64::try_from(most).unwrap_or(i64::MAX) }
    }
}

/// A demand on the elements of one operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The operand.
    pub operand: usize,
    dtype: DType,
    count: usize,
    elements: Elements,
}

impl Demand {
    /// Returns what an op demands for operands of these types; `None` if any elements will do.
    pub fn new(op: Op, attrs: &Attrs, types: &[&TensorType]) -> Option<Self> {
        let (operand, elements) = op.logical().flags.demands?(attrs, types)?;
        let ty = types[operand];
        Some(Self { operand, dtype: ty.dtype, count: ty.shape.count(), elements })
    }

    /// Returns what is wrong with the bytes of the operand.
    ///
    /// # Errors
    /// The first element that does not meet the demand, and what it should be.
    pub fn check(&self, bytes: &[u8]) -> Result<(), Unmet> {
        match self.dtype.size() {
            1 => self.elements(bytes, |[a]: [u8; 1]| i64::from(a.cast_signed())),
            2 => self.elements(bytes, |two| i64::from(i16::from_ne_bytes(two))),
            4 => self.elements(bytes, |four| i64::from(i32::from_ne_bytes(four))),
            _ => self.elements(bytes, i64::from_ne_bytes),
        }
    }

    /// Numbers without a sign are read with one, which does not matter: positions have one, and zero is zero.
    fn elements<const N: usize>(&self, bytes: &[u8], read: impl Fn([u8; N]) -> i64) -> Result<(), Unmet> {
        let (elements, _) = bytes.as_chunks::<N>();
        let all = || elements.iter().take(self.count).map(|element| read(*element)).enumerate();
        let outside = |value: i64, size: usize| {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            !(-size..size).contains(&value)
        };
        let wrong = match &self.elements {
            Elements::Axis { axis, size } => {
                all().find(|(_, value)| outside(*value, *size)).map(|(at, value)| (at, value, *axis, *size))
            }
            Elements::Axes { first, sizes } => {
                let size = |at: usize| sizes[at % sizes.len()];
                let found = (!sizes.is_empty()).then(|| all().find(|(at, value)| outside(*value, size(*at))));
                found.flatten().map(|(at, value)| (at, value, first + at % sizes.len(), size(at)))
            }
            Elements::Number { what, most } => {
                return match all().find(|(_, number)| !(0..=*most).contains(number)) {
                    Some((element, number)) => Err(Unmet::Outside { what, number, element, most: *most }),
                    None => Ok(()),
                };
            }
            Elements::Divisor => {
                return match all().find(|(_, value)| *value == 0) {
                    Some((element, _)) => Err(Unmet::Zero { element }),
                    None => Ok(()),
                };
            }
        };
        match wrong {
            None => Ok(()),
            Some((element, index, axis, size)) => Err(Unmet::Index { index, element, axis, size }),
        }
    }
}

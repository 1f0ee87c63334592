//! What an op demands of the elements of its operands, beside their types.
//!
//! Element types and shapes are known when a plan is made; elements often only when it runs. A session asks before each
//! step of an op in this table, so that an index out of range or a division by zero is an error which names the step,
//! whichever kernel was chosen. The kernels themselves stay inside their buffers in any case.

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

/// A demand on the elements of one operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The operand.
    pub operand: usize,
    dtype: DType,
    count: usize,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The elements are positions along an axis of this size; negative ones count from the end.
    Axis { axis: usize, size: usize },
    /// The elements are groups of positions along these axes, the first of which has this number.
    Axes { first: usize, sizes: Vec<usize> },
    /// The elements are numbers from 0 to `most`, and are called this.
    Number { what: &'static str, most: i64 },
    /// No element is zero.
    Divisor,
}

impl Demand {
    /// Returns what an op demands for operands of these types; `None` if any elements will do.
    pub fn new(op: Op, attrs: &Attrs, types: &[&TensorType]) -> Option<Self> {
        let size = |attr: &str| usize::try_from(attrs.expect_int(attr)).ok();
        let most = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let (operand, kind) = match op.logical().name {
            "gather" | "gather-elements" | "scatter-elements" => {
                let axis = size("axis")?;
                (1, Kind::Axis { axis, size: *types[0].shape.get(axis)? })
            }
            "embed" => (1, Kind::Axis { axis: 0, size: *types[0].shape.first()? }),
            "gather-nd" | "scatter-nd" => {
                let first = if op.logical() == "gather-nd" { size("batch-dims")? } else { 0 };
                let depth = *types[1].shape.last()?;
                (1, Kind::Axes { first, sizes: types[0].shape.get(first..first + depth)?.to_vec() })
            }
            "sum-equal-rows" => (0, Kind::Axes { first: 0, sizes: vec![size("size")?] }),
            "roi-align" => {
                let images = *types[0].shape.first()?;
                (2, Kind::Number { what: "number of the image", most: most(images) - 1 })
            }
            // No other operand of a recurrent layer is of this type.
            "lstm" | "gru" | "rnn" | "lstm-integer" => {
                let is_lengths = |ty: &&TensorType| ty.dtype == DType::I32 && ty.shape.rank() == 1;
                let steps = *types[0].shape.first()?;
                let kind = Kind::Number { what: "length of the sequence", most: most(steps) };
                (types.iter().position(is_lengths)?, kind)
            }
            "div" | "mod" if types[1].dtype.is_integer() => (1, Kind::Divisor),
            _ => return None,
        };
        let ty = types[operand];
        Some(Self { operand, dtype: ty.dtype, count: ty.shape.count(), kind })
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
        let wrong = match &self.kind {
            Kind::Axis { axis, size } => {
                all().find(|(_, value)| outside(*value, *size)).map(|(at, value)| (at, value, *axis, *size))
            }
            Kind::Axes { first, sizes } => {
                let size = |at: usize| sizes[at % sizes.len()];
                let found = (!sizes.is_empty()).then(|| all().find(|(at, value)| outside(*value, size(*at))));
                found.flatten().map(|(at, value)| (at, value, first + at % sizes.len(), size(at)))
            }
            Kind::Number { what, most } => {
                return match all().find(|(_, number)| !(0..=*most).contains(number)) {
                    Some((element, number)) => Err(Unmet::Outside { what, number, element, most: *most }),
                    None => Ok(()),
                };
            }
            Kind::Divisor => {
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

//! Why a side of a rule has no type, or is not evaluated.

use ovolo::op::OpError;
use ovolo::rule::No;
use ovolo::tensor::TensorType;

/// Why a side of a rule has no type on an instance, or is not evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Untyped {
    /// An attribute cannot be computed.
    #[error(transparent)]
    Attribute(#[from] No),
    /// An operand is in the place of an attribute.
    #[error("an operand is in the place of an attribute")]
    NoAttribute,
    /// A variable has no operands.
    #[error("an unbound {what}")]
    Unbound {
        /// What the variable stands for: an operand, or the rest of a list of operands.
        what: &'static str,
    },
    /// `each` stands outside an operand list.
    #[error("`each` stands outside an operand list")]
    Each,
    /// An op does not take its attributes.
    #[error("`{op}`: {why}")]
    Attributes {
        /// The op.
        op: &'static str,
        /// The first mistake in the attributes.
        why: String,
    },
    /// An op takes another number of operands.
    #[error(transparent)]
    Count(OpError),
    /// An op does not take its operands.
    #[error("`{op}` cannot be typed: {why}")]
    Operands {
        /// The op.
        op: &'static str,
        /// The reason of the op.
        why: OpError,
    },
    /// A value has too many elements to be evaluated.
    #[error("a value of type {ty} has more than {most} elements, too many to evaluate")]
    Large {
        /// The type of the value.
        ty: Box<TensorType>,
        /// The most elements of a value.
        most: usize,
    },
    /// A value has no elements.
    #[error("a value of type {ty} has no elements, so there is nothing to compare")]
    Empty {
        /// The type of the value.
        ty: Box<TensorType>,
    },
    /// An op takes too long to be evaluated.
    #[error("`{op}` of {operations:.0e} operations is too slow to evaluate")]
    Slow {
        /// The op.
        op: &'static str,
        /// The number of its operations.
        operations: f64,
    },
}

/// Attempts to generate instances report all their reasons as texts, which are counted.
impl From<Untyped> for String {
    fn from(why: Untyped) -> Self {
        why.to_string()
    }
}

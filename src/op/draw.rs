//! Samples: attributes and operands that fit an op, drawn at random for verifiers and tests.
//!
//! An op says in `OpDef::sample` how they are drawn. A sample is only proposed: the op itself types it, and whoever asked
//! for it decides whether it is of use.

use crate::attr::{Attr, Attrs};
use crate::tensor::{DType, TensorType};
use std::ops::RangeInclusive;

/// Draws a sample of an op. `None` if nothing fits what is already determined.
pub(crate) type SampleOf = fn(&mut dyn Draw) -> Option<Sample>;

/// What a sample is drawn from: random numbers, and what the caller already knows of the node.
///
/// A sample need not heed what is known, but then it often misses it and is of no use. Attributes that a sample leaves
/// out have the determined value or else their default.
pub trait Draw {
    /// Draws a number below `limit`, which is at least 1.
    fn below(&mut self, limit: usize) -> usize;

    /// Draws a size, such as a number of channels.
    fn size(&mut self) -> usize;

    /// Decides whether a setting has its usual value.
    fn usual(&mut self) -> bool;

    /// Returns the type that the result should have.
    fn wanted(&self) -> &TensorType;

    /// Returns the type of an operand that is already determined.
    fn known(&self, operand: usize) -> Option<&TensorType>;

    /// Returns the value of an attribute that is already determined.
    fn fixed(&self, name: &str) -> Option<&Attr>;

    /// Returns how many operands the node may have.
    fn operands(&self) -> RangeInclusive<usize>;

    /// Draws the value of a float attribute: the determined one, its default, or one that models have.
    fn float(&mut self, name: &str) -> f64;

    /// Draws the attribute `post` of an op with `base` operands before those of the chain, and the operands of the chain,
    /// which broadcast to the result. `None` if no chain fits the number of operands.
    fn post(&mut self, base: usize, result: &TensorType) -> Option<Sample>;
}

impl dyn Draw + '_ {
    /// Draws one of the elements, of which there is at least one.
    pub fn pick<T: Clone>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())].clone()
    }

    /// Returns true in `often` percent of the calls.
    pub fn percent(&mut self, often: usize) -> bool {
        self.below(100) < often
    }

    /// Draws a size from 1 to 4.
    pub fn small(&mut self) -> usize {
        1 + self.below(4)
    }

    /// Draws the shape of a value of this rank, whose sizes are from 1 to 4.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.small()).collect()
    }

    /// Draws 0 or 1, unless the attribute is already determined.
    pub fn flag(&mut self, name: &str) -> i64 {
        match self.fixed(name) {
            Some(Attr::Int(flag)) => i64::from(*flag != 0),
            _ => i64::from(self.percent(50)),
        }
    }

    /// Draws a value of floats of any shape, as the only operand.
    pub(super) fn one(&mut self) -> Option<Sample> {
        let rank = self.small().min(3);
        let (shape, dtype) = (self.shape(rank), self.floats());
        Some(Sample::new(Attrs::new(), [TensorType::plain(dtype, shape)]))
    }

    /// Draws a type of floats.
    pub(super) fn floats(&mut self) -> DType {
        self.pick(&[DType::F32, DType::F32, DType::F64, DType::F16])
    }

    /// Draws the type of positions.
    pub(super) fn positions(&mut self, shape: Vec<usize>) -> TensorType {
        TensorType::plain(self.pick(&[DType::I64, DType::I64, DType::I32]), shape)
    }
}

/// Attributes and operands of an op.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The attributes.
    pub attrs: Attrs,
    /// The types of the operands, and which values they have.
    pub operands: Vec<(TensorType, Values)>,
}

impl Sample {
    /// Returns a sample whose operands have these types and any values.
    pub fn new(attrs: Attrs, types: impl IntoIterator<Item = TensorType>) -> Self {
        Self { attrs, operands: types.into_iter().map(|ty| (ty, Values::Any)).collect() }
    }

    /// Says which values an operand has.
    ///
    /// # Panics
    /// If there is no such operand.
    #[must_use]
    pub fn with(mut self, operand: usize, values: Values) -> Self {
        self.operands[operand].1 = values;
        self
    }

    /// Adds the chain that [`Draw::post`] has drawn.
    pub(super) fn then(mut self, chain: Self) -> Self {
        for (name, value) in chain.attrs.iter() {
            self.attrs.set(name, value.clone());
        }
        self.operands.extend(chain.operands);
        self
    }
}

/// The values of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values around zero, or positive ones.
    Any,
    /// Positive values, for the argument of a root or a logarithm.
    Positive,
    /// Exponents, including 2 and 0.5, which undo each other for positive numbers.
    Exponent,
    /// Indices into an axis of this size, counted from the front or the back.
    Below(usize),
}

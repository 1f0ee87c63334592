//! The kinds of values that leaves may have, and the limit on their size.

/// The most elements of a value that is evaluated, because the reference is slow.
pub(super) const LARGEST: usize = 20_000;

/// The kind of values that a leaf has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    /// Values around zero, or positive ones.
    Any,
    /// Positive values, for the argument of a root or a logarithm.
    Positive,
    /// Exponents, including 2 and 0.5, which undo each other for positive numbers.
    Exponent,
    /// Indices into an axis of this size, counted from the front or the back.
    Below(usize),
}

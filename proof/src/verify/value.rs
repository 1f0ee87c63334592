//! What values of instances may be, and how large.

/// Values of more elements than this are not evaluated: the reference is slow.
pub(super) const LARGEST: usize = 20_000;

/// What the values of a leaf are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    /// About zero, or positive.
    Any,
    /// Positive: what a root or a logarithm is taken of.
    Positive,
    /// What a power is taken to: two and a half among them, which undo each other for some.
    Exponent,
    /// Positions in an axis of this size, from the front or the back.
    Below(usize),
}

//! Mistakes about instruction sets.

use super::Isa;

/// A name that no instruction set has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not an instruction set: there are {known}")]
pub struct UnknownIsa {
    /// The name.
    pub name: String,
    /// The names of instruction sets.
    pub known: String,
}

/// Kernels are already planned for another instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernels are already planned for {planned}, so they cannot be planned for {wanted}")]
pub struct Planned {
    /// The instruction set that they are planned for.
    pub planned: Isa,
    /// The instruction set that was asked for.
    pub wanted: Isa,
}

//! Errors of adding to a registry.

use crate::diagnostic::Diagnostics;
use crate::op::LowerError;
use crate::table::Duplicate;

/// Something cannot be added to a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is taken.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// A price list has mistakes.
    #[error("{0}")]
    Prices(Diagnostics),
    /// A table of functions of one number has mistakes.
    #[error("{0}")]
    Functions(Diagnostics),
    /// An op of a backend cannot be defined.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The name of an op does not begin with that of its backend.
    #[error("the backend `{backend}` has an op `{op}`: the names of its ops begin with `{backend}.`")]
    Prefix {
        /// The backend.
        backend: String,
        /// The op.
        op: &'static str,
    },
}

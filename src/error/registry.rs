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
    /// A name that nothing could be found by.
    #[error("the name `{name}` of {of} {why}")]
    Name {
        /// What has the name, such as `an op`.
        of: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it, as the rest of the sentence.
        why: &'static str,
    },
    /// An op declares two attributes of one name.
    #[error("the op `{op}` declares its attribute `{attribute}` twice")]
    Attribute {
        /// The op.
        op: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// A price list has mistakes.
    #[error("{0}")]
    Prices(Diagnostics),
    /// A table of functions of one number has mistakes.
    #[error("{0}")]
    Functions(Diagnostics),
    /// An ONNX operator that a table of functions names is already imported as something else, so that it would never
    /// be imported as the function.
    #[error(
        "{table}: the ONNX operator `{operator}` of the function `{function}` is already imported{}: name an operator \
         of your own domain, as in `com.example.{}`, or give the function other attribute values (`when`)",
        .by.map_or_else(String::new, |by| format!(" as `{by}`")),
        .operator.rsplit('.').next().unwrap_or(operator)
    )]
    Operator {
        /// The table.
        table: String,
        /// The function.
        function: &'static str,
        /// The operator.
        operator: &'static str,
        /// The function as which it is imported; `None` if it has an importer of its own.
        by: Option<&'static str>,
    },
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

//! Exceptions.

use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeError;
use std::fmt::Display;

pyo3::create_exception!(ovolo, Error, PyRuntimeError, "A model, a setting or a run that ovolo refuses.");
pyo3::create_exception!(ovolo, InvalidArgument, Error, "Inputs or outputs that do not fit the model.");

/// Returns the exception for an error of the library.
pub fn error(why: impl Display) -> PyErr {
    Error::new_err(why.to_string())
}

/// Returns the exception for a wrong argument.
pub fn invalid(why: impl Display) -> PyErr {
    InvalidArgument::new_err(why.to_string())
}

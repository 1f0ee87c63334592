//! Exceptions.

use pyo3::exceptions::{PyArithmeticError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::{PyErr, Python};
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

/// Adds the name of the input to the exception of a value that cannot be read. A value of another kind stays a
/// `TypeError`.
pub fn of_input(py: Python<'_>, name: impl Display, why: PyErr) -> PyErr {
    let said = format!("input `{name}`: {}", why.value(py));
    let named = if why.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(said)
    } else if why.is_instance_of::<PyValueError>(py) || why.is_instance_of::<PyArithmeticError>(py) {
        invalid(said)
    } else {
        return why;
    };
    named.set_cause(py, Some(why));
    named
}

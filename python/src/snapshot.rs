//! What cases of `ovolo test` show, for tests in Python.

use crate::error::error;
use crate::registry::shared;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Returns what a case shows of its compilation.
#[pyfunction]
pub fn shown(py: Python<'_>, case: PathBuf) -> PyResult<String> {
    py.detach(|| ovolo_cli::shown(&shared(), &case)).map_err(error)
}

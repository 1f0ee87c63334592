//! Rules, verified on generated instances.

use crate::error::error;
use crate::registry::shared;
use ovolo_cli::{VerifySettings, verify_rules};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Verifies rules, and returns the results as JSON: a list with an object for each rule.
#[pyfunction]
#[pyo3(signature = (files, folders, only, instances, seed, threads, told))]
#[allow(clippy::too_many_arguments)] // One for each argument of the function in Python.
pub fn verify(
    py: Python<'_>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    only: Vec<String>,
    instances: usize,
    seed: u64,
    threads: Option<usize>,
    told: Option<Py<PyAny>>,
) -> PyResult<String> {
    let asked = VerifySettings { files, folders, only, instances, seed, threads };
    let raised = Mutex::new(None);
    let tell = |count: usize| {
        let Some(told) = &told else { return };
        if let Err(why) = Python::attach(|py| told.call1(py, (count,)).map(|_| ())) {
            raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
    };
    let list = py.detach(|| verify_rules(&shared(), &asked, &tell)).map_err(error)?;
    if let Some(why) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    Ok(serde_json::Value::from(list).to_string())
}

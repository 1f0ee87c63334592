//! Rules, verified on generated instances.

use crate::error::error;
use crate::registry::shared;
use crate::signal::interruptible;
use ovolo_cli::{VerifySettings, verify_case, verify_rules};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Verifies rules, and returns the results as JSON: a list with an object for each rule. An exception of `told`, and a
/// signal such as that of Ctrl-C, end it after the instances that have begun.
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
    let list = interruptible(py, |stop| {
        let tell = |count: usize| {
            if let Some(told) = &told
                && let Err(why) = Python::attach(|py| told.call1(py, (count,)).map(|_| ()))
            {
                raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                stop.store(true, Ordering::Relaxed);
            }
        };
        verify_rules(&shared(), &asked, stop, &tell)
    })?;
    if let Some(why) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    let list = list.map_err(error)?;
    Ok(serde_json::Value::from(list).to_string())
}

/// Returns how the sides of a counterexample in a file differ; `None` if they agree.
#[pyfunction]
pub fn differ(py: Python<'_>, case: PathBuf) -> PyResult<Option<String>> {
    py.detach(|| verify_case(&shared(), &case)).map_err(error)
}

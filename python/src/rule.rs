//! Rules, verified on generated instances.

use crate::error::error;
use crate::registry::shared;
use ovolo_cli::{VerifySettings, verify_rules};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Verifies rules, and returns the results as JSON: a list with an object for each rule.
#[pyfunction]
#[pyo3(signature = (files, folders, only, instances, seed, threads))]
pub fn verify(
    py: Python<'_>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    only: Vec<String>,
    instances: usize,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<String> {
    let asked = VerifySettings { files, folders, only, instances, seed, threads };
    let list = py.detach(|| verify_rules(&shared(), &asked)).map_err(error)?;
    Ok(serde_json::Value::from(list).to_string())
}

//! The results of the search for NVIDIA's libraries.

use super::wanted::{CUBLASLT, CUDNN, DRIVER, NVRTC, Wanted};
use super::{cublaslt, cudnn, driver, nvrtc};
use ovolo::backend::{BackendError, RuntimeLibrary};

/// Returns all libraries that a plan on a device can use: with their versions, or with the reasons why they are absent
/// and what the user can do.
pub(super) fn libraries() -> Vec<RuntimeLibrary> {
    let library = |wanted: &Wanted, found: Result<String, String>| RuntimeLibrary {
        name: wanted.title,
        found: found.map_err(BackendError::Absent),
    };
    let compiler = nvrtc::compiler().map(|compiler| format!("{compiler:?}"));
    vec![
        library(&DRIVER, driver::opened().map(ToString::to_string)),
        library(&NVRTC, compiler.map_err(|why| format!("{why}; {}", NVRTC.remedy))),
        library(&CUDNN, cudnn::opened().map(|found| found.calls.describe(found))),
        library(&CUBLASLT, cublaslt::opened().map(ToString::to_string)),
    ]
}

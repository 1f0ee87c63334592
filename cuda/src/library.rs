//! The results of the search for NVIDIA's libraries.

use super::nvrtc::NvrtcError;
use super::wanted::{CUBLASLT, CUDNN, DRIVER, NVRTC, Wanted};
use super::{cublaslt, cudnn, driver, nvrtc};
use ovolo::backend::{BackendError, RuntimeLibrary};

/// Returns all libraries that a plan on a device can use: with their versions, or with the reasons why they are absent
/// and what the user can do.
pub(super) fn libraries() -> Vec<RuntimeLibrary> {
    let library = |wanted: &Wanted, found: Result<String, String>| RuntimeLibrary {
        name: wanted.title,
        found: found.map_err(|why| BackendError::absent(wanted.title, why)),
    };
    let compiler = nvrtc::compiler().map(|compiler| format!("{compiler:?}"));
    vec![
        library(&DRIVER, driver::opened().map(ToString::to_string)),
        library(
            &NVRTC,
            compiler.map_err(|why| match why {
                NvrtcError::Absent { tried } => NVRTC.absence(tried),
                refused @ NvrtcError::Refused { .. } => refused.to_string(),
            }),
        ),
        library(&CUDNN, cudnn::opened().map(|found| found.calls.describe(found))),
        library(&CUBLASLT, cublaslt::opened().map(ToString::to_string)),
    ]
}

//! The results of the search for NVIDIA's libraries.

use super::wanted::{CUBLASLT, CUDNN, DRIVER, NVRTC, Wanted};
use super::{cublaslt, cudnn, driver, nvrtc};
use ovolo::backend::BackendError;

/// The usual name of a library with its version, or with the reason why it is absent and what the user can do.
pub type Found = (&'static str, Result<String, BackendError>);

/// Returns the search results for all libraries that the backends use.
pub fn libraries() -> Vec<Found> {
    let found = |wanted: &Wanted, what: Result<String, String>| {
        (wanted.title, what.map_err(|why| BackendError::Absent(format!("{why}; {}", wanted.remedy))))
    };
    vec![
        (DRIVER.title, driver::opened().map(ToString::to_string).map_err(BackendError::Absent)),
        found(&NVRTC, nvrtc::compiler().map(|compiler| format!("{compiler:?}")).map_err(ToString::to_string)),
        (CUDNN.title, cudnn::opened().map(|found| found.calls.describe(found)).map_err(BackendError::Absent)),
        (CUBLASLT.title, cublaslt::opened().map(ToString::to_string).map_err(BackendError::Absent)),
    ]
}

//! The results of the search for NVIDIA's libraries.

use super::wanted::{CUBLASLT, CUDNN, DRIVER, NVRTC, Wanted};
use super::{cublaslt, cudnn, driver, nvrtc};

/// The usual name of a library with its version, or with the reason why it is absent and what the user can do.
pub type Found = (&'static str, Result<String, String>);

/// Returns the search results for all libraries that the backends use.
pub fn libraries() -> Vec<Found> {
    let found = |wanted: &Wanted, what: Result<String, String>| {
        (wanted.title, what.map_err(|why| format!("{why}; {}", wanted.remedy)))
    };
    vec![
        (DRIVER.title, driver::opened().map(ToString::to_string)),
        found(&NVRTC, nvrtc::compiler().map(|compiler| format!("{compiler:?}")).map_err(Clone::clone)),
        (CUDNN.title, cudnn::opened().map(|found| found.calls.describe(found))),
        (CUBLASLT.title, cublaslt::opened().map(ToString::to_string)),
    ]
}

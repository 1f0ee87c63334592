//! What was found of the libraries of NVIDIA.

use super::wanted::{CUBLASLT, CUDNN, DRIVER, NVRTC, Wanted};
use super::{cublaslt, cudnn, driver, nvrtc};

/// What was found of one library, with its version; or why it is not there, and what to do.
pub type Found = (&'static str, Result<String, String>);

/// Every library that the backend uses, and what was found of it.
pub fn libraries() -> Vec<Found> {
    let found = |wanted: &Wanted, what: Result<String, String>| {
        (wanted.title, what.map_err(|why| format!("{why}; {}", wanted.remedy)))
    };
    vec![
        (DRIVER.title, driver::opened().map(ToString::to_string)),
        found(&NVRTC, nvrtc::compiler().map(|compiler| format!("{compiler:?}")).map_err(Clone::clone)),
        (CUDNN.title, cudnn::opened().map(|found| found.calls.told(found))),
        (CUBLASLT.title, cublaslt::opened().map(ToString::to_string)),
    ]
}

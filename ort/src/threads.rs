//! Numbers of threads.

use crate::status::Failure;
use std::ffi::c_int;

/// Returns a number of threads; 0 stands for the default.
pub fn threads(count: c_int) -> Result<Option<usize>, Failure> {
    match usize::try_from(count) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => {
            Err(Failure::invalid(format!("{count} is no number of threads: give 0 for the default, or more")))
        }
    }
}

//! The scratch memory of convolutions. On a device the library is asked, once in a process for a convolution.

use super::described::Described;
use super::{Handle, Problem, opened};
use crate::driver;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The known answers by the convolutions' texts: bytes, or why the library has no kernel.
static KNOWN: Mutex<BTreeMap<String, Result<usize, String>>> = Mutex::new(BTreeMap::new());

/// Returns the scratch bytes that the library needs for a convolution; without a device, the most that it can need.
///
/// # Errors
/// If the library has no kernel of the algorithm for the convolution, or reports another error.
pub(crate) fn workspace(problem: &Problem) -> Result<usize, String> {
    opened().map_err(|why| format!("cuDNN is {why}"))?;
    if driver::opened().is_err() {
        return Ok(problem.workspace());
    }
    let text = format!("{problem:?}");
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known.get(&text) {
        return answer.clone();
    }
    let handle = Handle::shared()?;
    let answer = Described::new(handle.calls, problem)?.workspace(handle)?;
    let answer = answer.map_err(|refused| format!("{} is not supported: {}", problem.name(), refused.0));
    known.insert(text, answer.clone());
    answer
}

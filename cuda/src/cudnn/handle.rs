//! The library with a context, and what its answers mean.

use super::calls::Calls;
use crate::calls::Status;
use crate::driver::Context;
use crate::{cublaslt, cudnn, nvrtc};
use cudarc::cudnn::sys;
use std::ptr;
use std::rc::Rc;

impl Calls {
    /// What a call came to: success, or what the library calls the number, and what to do.
    pub(super) fn of(&self, call: &str, status: Status) -> Result<(), String> {
        let remedy = match status.0 {
            0 => return Ok(()),
            1001..=1008 => {
                "its parts are of one version and lie side by side: `ovolo doctor` says where it was found"
            }
            3000..=3999 => {
                "`ovolo tune` finds what runs on this device; without `cudnn` in the pipeline's backends generated kernels do"
            }
            5000..=5999 => "`compute-sanitizer ovolo run …` names the kernel that is wrong",
            _ => "`ovolo doctor` says which version of the library there is: install another one",
        };
        // SAFETY: the library has a text that lasts, or none, for any number.
        let name = unsafe { status.named((self.cudnnGetErrorString)(status)) };
        Err(format!("{call}: {name}; {remedy}"))
    }
}

/// The library with a context.
pub(crate) struct Handle {
    pub(super) calls: &'static Calls,
    pub(super) raw: sys::cudnnHandle_t,
    context: Rc<Context>,
}

impl Handle {
    /// Opens the library for a context, which is this thread's.
    ///
    /// # Errors
    /// That it is not there, or what it said.
    pub fn new(context: &Rc<Context>) -> Result<Rc<Self>, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan takes cuDNN, which is {why}"))?;
        let calls = &found.calls.base;
        // It looks for these by their names when it needs them, and finds them where they are open.
        let _ = (cublaslt::opened(), nvrtc::compiler());
        let mut raw = ptr::null_mut();
        // SAFETY: the library is open, and writes a handle.
        calls.of("cudnnCreate", unsafe { (calls.cudnnCreate)(&raw mut raw) })?;
        Ok(Rc::new(Self { calls, raw, context: Rc::clone(context) }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: the handle is of this context, and nobody else gives it back.
            let _ = unsafe { (self.calls.cudnnDestroy)(self.raw) };
        }
    }
}

//! The library, opened for a context, and the meaning of its status codes.

use super::calls::Calls;
use crate::calls::Status;
use crate::driver::Context;
use crate::{cublaslt, cudnn, nvrtc};
use cudarc::cudnn::sys;
use std::ptr;
use std::rc::Rc;

impl Calls {
    /// Returns an error unless the status is success. The error has the library's name for the status, and says what
    /// the user can do.
    pub(super) fn check(&self, call: &str, status: Status) -> Result<(), String> {
        let remedy = match status.0 {
            0 => return Ok(()),
            1001..=1008 => {
                "all its files must have the same version and be in one directory: `ovolo doctor` says where it was \
                 found"
            }
            3000..=3999 => {
                "`ovolo tune` finds algorithms that run on this device; or remove `cudnn` from the backends of the \
                 pipeline, and generated kernels run instead"
            }
            5000..=5999 => "run `compute-sanitizer ovolo run …` to find the faulty kernel",
            _ => "install another version of the library; `ovolo doctor` says which one was found",
        };
        // SAFETY: for every number the library returns null or a string with static lifetime.
        let name = unsafe { status.named((self.cudnnGetErrorString)(status)) };
        Err(format!("{call}: {name}; {remedy}"))
    }
}

/// The library, opened for a context.
pub(crate) struct Handle {
    pub(super) calls: &'static Calls,
    pub(super) raw: sys::cudnnHandle_t,
    context: Rc<Context>,
}

impl Handle {
    /// Opens the library for a context, which must be current on this thread.
    ///
    /// # Errors
    /// If the library is absent or reports an error.
    pub(crate) fn new(context: &Rc<Context>) -> Result<Rc<Self>, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan needs cuDNN, which is {why}"))?;
        let calls = &found.calls.base;
        // cuDNN opens these libraries by name when it needs them, and finds those that are already open.
        let _ = (cublaslt::opened(), nvrtc::compiler());
        let mut raw = ptr::null_mut();
        // SAFETY: the library is open, and writes a handle.
        calls.check("cudnnCreate", unsafe { (calls.cudnnCreate)(&raw mut raw) })?;
        Ok(Rc::new(Self { calls, raw, context: Rc::clone(context) }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: the handle belongs to this context, and it is released once.
            let _ = unsafe { (self.calls.cudnnDestroy)(self.raw) };
        }
    }
}

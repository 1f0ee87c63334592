//! The library, opened for a context, and the meaning of its status codes.

use super::calls::Calls;
use crate::calls::Status;
use crate::driver::{Context, Stream};
use crate::shared::Shared;
use crate::{cublaslt, cudnn, nvrtc};
use cudarc::cudnn::sys;
use std::ptr;
use std::sync::{Mutex, PoisonError};

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

/// The library, opened for the device's context. A process has one handle, which threads use one after another.
pub(crate) struct Handle {
    pub(super) calls: &'static Calls,
    raw: sys::cudnnHandle_t,
    turn: Mutex<()>,
}

// SAFETY: any thread may use the handle.
unsafe impl Send for Handle {}
// SAFETY: `with` lets one thread at a time use it.
unsafe impl Sync for Handle {}

impl Handle {
    /// Returns the handle, and opens the library if this is the first call. The device's context is then current on
    /// this thread.
    ///
    /// # Errors
    /// If the library is absent or reports an error.
    pub(crate) fn shared() -> Result<&'static Self, String> {
        static SHARED: Shared<Handle> = Shared::new();
        Context::shared()?;
        SHARED.get(|| {
            let found = cudnn::opened().map_err(|why| format!("the plan needs cuDNN, which is {why}"))?;
            let calls = &found.calls.base;
            // cuDNN opens these libraries by name when it needs them, and finds those that are already open.
            let _ = (cublaslt::opened(), nvrtc::compiler());
            let mut raw = ptr::null_mut();
            // SAFETY: the library is open, and writes a handle.
            calls.check("cudnnCreate", unsafe { (calls.cudnnCreate)(&raw mut raw) })?;
            Ok(Self { calls, raw, turn: Mutex::new(()) })
        })
    }

    /// Returns the version of the library as one number.
    pub(super) fn version(&self) -> usize {
        // SAFETY: the function has no arguments and returns a number.
        unsafe { (self.calls.cudnnGetVersion)() }
    }

    /// Lets the calling thread use the library's handle; others wait meanwhile. The stream of the handle is set and
    /// used within one turn.
    pub(super) fn with<T>(&self, call: impl FnOnce(sys::cudnnHandle_t) -> T) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        call(self.raw)
    }

    /// Sets the stream of the handle and queues calls on it.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(super) fn on(
        &self,
        stream: &Stream,
        queue: impl FnOnce(sys::cudnnHandle_t) -> Result<(), String>,
    ) -> Result<(), String> {
        self.with(|raw| {
            // SAFETY: the handle and the stream are valid.
            let status = unsafe { (self.calls.cudnnSetStream)(raw, stream.raw()) };
            self.calls.check("cudnnSetStream", status)?;
            queue(raw)
        })
    }
}

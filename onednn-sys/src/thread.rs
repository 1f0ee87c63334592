//! Restricts the library to the calling thread.

use crate::load::Library;
use std::ffi::c_int;
use std::marker::PhantomData;

/// A guard: while it lives, the library uses one thread for calls from this thread.
///
/// OpenMP has a thread count for each thread of the system; dropping the guard restores the previous count.
pub struct OneThread {
    before: Option<c_int>,
    library: &'static Library,
    /// Keeps the guard on the thread that created it.
    thread: PhantomData<*const ()>,
}

impl OneThread {
    /// Sets the thread count to 1.
    #[must_use]
    pub fn new(library: &'static Library) -> Self {
        let before = library.threads.as_ref().map(|openmp| {
            // SAFETY: both functions may be called at any time.
            unsafe {
                let before = (openmp.get)();
                (openmp.set)(1);
                before
            }
        });
        Self { before, library, thread: PhantomData }
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        if let (Some(before), Some(openmp)) = (self.before, &self.library.threads) {
            // SAFETY: as above.
            unsafe { (openmp.set)(before) };
        }
    }
}

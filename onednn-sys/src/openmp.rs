//! The OpenMP runtime that the library uses.

use std::ffi::c_int;

/// The functions of the OpenMP runtime that the library uses.
pub(crate) struct OpenMp {
    pub(crate) set: unsafe extern "C" fn(c_int),
    pub(crate) get: unsafe extern "C" fn() -> c_int,
}

impl OpenMp {
    /// Loads the functions from an open library.
    pub(crate) fn new(library: &libloading::Library) -> Option<Self> {
        // SAFETY: the functions have these types in every OpenMP runtime.
        unsafe {
            Some(Self {
                set: *library.get(b"omp_set_num_threads\0").ok()?,
                get: *library.get(b"omp_get_max_threads\0").ok()?,
            })
        }
    }
}

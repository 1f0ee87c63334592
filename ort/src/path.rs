//! Paths, whose characters depend on the system.

use crate::argument::Argument;
use crate::status::Failure;
use ort_sys::os_char;
use std::path::PathBuf;

/// A path that a caller gives.
pub struct Path(pub PathBuf);

impl Argument<*const os_char> for Path {
    unsafe fn take(raw: *const os_char, name: &str) -> Result<Self, Failure> {
        if raw.is_null() {
            return Err(Failure::invalid(format!("`{name}` is a null pointer")));
        }
        // SAFETY: the characters of a path end with a zero.
        Ok(Self(unsafe { path(raw) }))
    }
}

/// # Safety
/// The characters end with a zero.
#[cfg(unix)]
unsafe fn path(raw: *const os_char) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the characters end with a zero.
    let text = unsafe { std::ffi::CStr::from_ptr(raw) };
    PathBuf::from(std::ffi::OsStr::from_bytes(text.to_bytes()))
}

/// # Safety
/// The characters end with a zero.
#[cfg(windows)]
unsafe fn path(raw: *const os_char) -> PathBuf {
    use std::os::windows::ffi::OsStringExt;
    let mut length = 0;
    // SAFETY: all characters up to the zero can be read.
    while unsafe { *raw.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: there are as many characters.
    PathBuf::from(std::ffi::OsString::from_wide(unsafe { std::slice::from_raw_parts(raw, length) }))
}

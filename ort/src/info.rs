//! What the library says of itself.

use ort_sys::OrtApi;
use std::ffi::{CStr, c_char};

const BUILD: &CStr = match CStr::from_bytes_with_nul(
    concat!("ovolo-ort ", env!("CARGO_PKG_VERSION"), ", in place of ONNX Runtime\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => c"ovolo-ort",
};

unsafe extern "system" fn GetBuildInfoString() -> *const c_char {
    BUILD.as_ptr()
}

/// Adds the function to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi { GetBuildInfoString, ..api }
}

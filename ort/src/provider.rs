//! Execution providers. Ovolo is the only one, and has the name of ONNX Runtime's provider for the processor.

use crate::argument::{List, Out, api};
use crate::options::SessionOptions;
use crate::status::Failure;
use ort_sys::{OrtApi, OrtEnv, OrtEpDevice, OrtErrorCode, OrtSessionOptions, OrtStatusPtr};
use std::ffi::{c_char, c_int};
use std::ptr;

/// The only provider.
const PROVIDER: &std::ffi::CStr = c"CPUExecutionProvider";

/// A list that never ends, so that nothing is released.
struct Names([*const c_char; 1]);

// SAFETY: the list and its texts never change.
unsafe impl Sync for Names {}

static NAMES: Names = Names([PROVIDER.as_ptr()]);

/// Returns why a provider cannot be had.
pub fn refusal(function: &str, name: &str) -> Failure {
    Failure::new(
        OrtErrorCode::ORT_NOT_IMPLEMENTED,
        format!(
            "`{function}`: ovolo has no execution provider `{name}`, since it is one itself: leave the provider out, and \
             name one of ovolo's pipelines in the entry `ovolo.pipeline` of the session's configuration"
        ),
    )
}

api! {
    fn GetAvailableProviders(
        out_ptr: *mut *mut *mut c_char as Out<*mut *mut c_char>,
        provider_length: *mut c_int as Out<c_int>,
    ) {
        // The C API says that callers only read the list.
        out_ptr.set(ptr::from_ref(&NAMES.0).cast_mut().cast());
        provider_length.set(1);
        Ok(())
    }

    fn SessionOptionsAppendExecutionProvider(
        options: *mut OrtSessionOptions as &SessionOptions,
        provider_name: *const c_char as &str,
        keys: *const *const c_char as List<*const c_char>,
        values: *const *const c_char as List<*const c_char>,
        num_keys: usize as usize,
    ) {
        let _ = (options, keys, values, num_keys);
        Err(refusal("SessionOptionsAppendExecutionProvider", provider_name))
    }

    fn GetEpDevices(
        env: *const OrtEnv as &crate::env::Env,
        ep_devices: *mut *const *const OrtEpDevice as Out<*const *const OrtEpDevice>,
        num_ep_devices: *mut usize as Out<usize>,
    ) {
        // There is no provider to choose, so there is no device of one.
        let _ = env;
        ep_devices.set(ptr::NonNull::dangling().as_ptr());
        num_ep_devices.set(0);
        Ok(())
    }
}

/// Nothing is released: the list never ends.
pub unsafe extern "system" fn ReleaseAvailableProviders(_: *mut *mut c_char, _: c_int) -> OrtStatusPtr {
    OrtStatusPtr::default()
}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        GetAvailableProviders,
        SessionOptionsAppendExecutionProvider,
        GetEpDevices,
        ReleaseAvailableProviders,
        ..api
    }
}

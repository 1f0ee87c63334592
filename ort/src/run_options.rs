//! The options of a run.

use crate::argument::{Handle, Out, api, release};
use crate::status::Failure;
use ort_sys::{OrtApi, OrtRunOptions};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The options of a run. Another thread may end the run while this one reads them.
#[derive(Default)]
pub struct RunOptions {
    ended: AtomicBool,
    settings: Mutex<Settings>,
}

#[derive(Default)]
struct Settings {
    tag: CString,
    severity: c_int,
    verbosity: c_int,
    entries: BTreeMap<CString, CString>,
}

impl Handle for RunOptions {
    type Sys = OrtRunOptions;
}

impl RunOptions {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to go on if another thread has ended the run.
    pub fn check(&self) -> Result<(), Failure> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(Failure::other("the run was ended by its options"));
        }
        Ok(())
    }
}

api! {
    fn CreateRunOptions(out: *mut *mut OrtRunOptions as Out<*mut OrtRunOptions>) {
        out.set(RunOptions::default().lend());
        Ok(())
    }

    fn RunOptionsSetTerminate(options: *mut OrtRunOptions as &RunOptions) {
        options.ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn RunOptionsUnsetTerminate(options: *mut OrtRunOptions as &RunOptions) {
        options.ended.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn RunOptionsSetRunTag(options: *mut OrtRunOptions as &RunOptions, run_tag: *const c_char as &CStr) {
        options.settings().tag = run_tag.to_owned();
        Ok(())
    }

    fn RunOptionsGetRunTag(
        options: *const OrtRunOptions as &RunOptions,
        run_tag: *mut *const c_char as Out<*const c_char>,
    ) {
        run_tag.set(options.settings().tag.as_ptr());
        Ok(())
    }

    fn RunOptionsSetRunLogSeverityLevel(options: *mut OrtRunOptions as &RunOptions, level: c_int as c_int) {
        options.settings().severity = level;
        Ok(())
    }

    fn RunOptionsGetRunLogSeverityLevel(
        options: *const OrtRunOptions as &RunOptions,
        level: *mut c_int as Out<c_int>,
    ) {
        level.set(options.settings().severity);
        Ok(())
    }

    fn RunOptionsSetRunLogVerbosityLevel(options: *mut OrtRunOptions as &RunOptions, level: c_int as c_int) {
        options.settings().verbosity = level;
        Ok(())
    }

    fn RunOptionsGetRunLogVerbosityLevel(
        options: *const OrtRunOptions as &RunOptions,
        level: *mut c_int as Out<c_int>,
    ) {
        level.set(options.settings().verbosity);
        Ok(())
    }

    // The entries are about devices and arenas of ONNX Runtime; they can be read back.
    fn AddRunConfigEntry(
        options: *mut OrtRunOptions as &RunOptions,
        config_key: *const c_char as &CStr,
        config_value: *const c_char as &CStr,
    ) {
        options.settings().entries.insert(config_key.to_owned(), config_value.to_owned());
        Ok(())
    }
}

release!(ReleaseRunOptions: RunOptions);

pub unsafe extern "system" fn GetRunConfigEntry(
    options: *const OrtRunOptions,
    key: *const c_char,
) -> *const c_char {
    if options.is_null() || key.is_null() {
        return std::ptr::null();
    }
    // SAFETY: a caller of the C API has options from it, and a text.
    let (options, key) = unsafe { (&*options.cast::<RunOptions>(), CStr::from_ptr(key)) };
    options.settings().entries.get(key).map_or(std::ptr::null(), |value| value.as_ptr())
}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateRunOptions,
        RunOptionsSetTerminate,
        RunOptionsUnsetTerminate,
        RunOptionsSetRunTag,
        RunOptionsGetRunTag,
        RunOptionsSetRunLogSeverityLevel,
        RunOptionsGetRunLogSeverityLevel,
        RunOptionsSetRunLogVerbosityLevel,
        RunOptionsGetRunLogVerbosityLevel,
        AddRunConfigEntry,
        GetRunConfigEntry,
        ReleaseRunOptions,
        ..api
    }
}

//! Notes of the compiler, which go to the logger of the environment.

use ort_sys::{OrtLoggingFunction, OrtLoggingLevel};
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A function of the caller that takes messages.
#[derive(Clone, Copy)]
pub struct Logger {
    function: OrtLoggingFunction,
    parameter: *mut c_void,
}

// SAFETY: a caller of the C API gives a function that any thread may call with this parameter.
unsafe impl Send for Logger {}

impl Logger {
    /// Takes the function and what it is called with.
    pub fn new(function: OrtLoggingFunction, parameter: *mut c_void) -> Self {
        Self { function, parameter }
    }
}

/// Where messages go, and the least level of those that are told.
#[derive(Clone, Copy)]
struct Target {
    logger: Option<Logger>,
    least: OrtLoggingLevel,
}

static TARGET: Mutex<Option<Target>> = Mutex::new(None);

fn target() -> MutexGuard<'static, Option<Target>> {
    TARGET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends notes to a logger, or to standard error if there is none, as long as the environment lives.
pub fn begin(logger: Option<Logger>, least: OrtLoggingLevel) {
    *target() = Some(Target { logger, least });
    ovolo_cli::on_note(tell);
}

/// Sets the least level of what is told.
pub fn set_least(level: OrtLoggingLevel) {
    if let Some(target) = target().as_mut() {
        target.least = level;
    }
}

/// Forgets the logger, which may not live longer than the environment.
pub fn end() {
    *target() = None;
}

fn tell(text: &str) {
    // Notes about something that the user may want to change begin so.
    let (level, text) = match text.strip_prefix("note: ") {
        Some(rest) => (OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING, rest),
        None => (OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO, text),
    };
    // The function of the caller is called after the lock is free, since it may make a session itself.
    let Some(Target { logger, least }) = *target() else { return };
    if (level as i32) < least as i32 {
        return;
    }
    match logger {
        None => eprintln!("ovolo: {text}"),
        Some(logger) => {
            let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
            let name: &CStr = c"ovolo";
            // SAFETY: the function and its parameter are the caller's, and live as long as the environment, which lives as
            // long as its sessions.
            unsafe {
                (logger.function)(
                    logger.parameter,
                    level,
                    name.as_ptr(),
                    name.as_ptr(),
                    name.as_ptr(),
                    text.as_ptr(),
                );
            }
        }
    }
}

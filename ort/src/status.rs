//! Statuses: how a function of the C API says that it has failed.

use ort_sys::stub::Error;
use ort_sys::{OrtErrorCode, OrtStatusPtr};
use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a function has failed.
#[derive(Debug)]
pub struct Failure {
    code: OrtErrorCode,
    message: String,
}

impl Failure {
    /// Makes a failure with a code.
    pub fn new(code: OrtErrorCode, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// Makes a failure for an argument that is wrong.
    pub fn invalid(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_INVALID_ARGUMENT, message)
    }

    /// Makes a failure for a reason that has no code of its own.
    pub fn other(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_FAIL, message)
    }

    /// Makes a failure for a function that ovolo does not have. `why` says what to do instead.
    pub fn absent(function: &str, why: &str) -> Self {
        Self::new(OrtErrorCode::ORT_NOT_IMPLEMENTED, format!("ovolo does not implement `{function}`: {why}"))
    }

    /// Says before the message what it is about.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Replaces a part of the message.
    #[must_use]
    pub fn reworded(self, from: &str, to: &str) -> Self {
        Self { message: self.message.replace(from, to), ..self }
    }

    /// Returns the status, which the caller releases. Statuses are those of the table of stubs, so that one function
    /// reads and releases the statuses of all functions.
    pub fn into_status(self) -> OrtStatusPtr {
        // A text of C ends at the first zero byte.
        Error::new_sys(self.code, self.message.replace('\0', "\u{fffd}"))
    }
}

/// Calls what a function of the C API does, and returns its status. A panic becomes a status as well, since it must not
/// reach a caller that is not written in Rust.
pub fn guard(call: impl FnOnce() -> Result<(), Failure>) -> OrtStatusPtr {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => OrtStatusPtr::default(),
        Ok(Err(failure)) => failure.into_status(),
        Err(panic) => {
            let message = format!("ovolo panicked, which is an error in ovolo: {}", message(&*panic));
            Failure::new(OrtErrorCode::ORT_RUNTIME_EXCEPTION, message).into_status()
        }
    }
}

/// Calls what a function without a status does. Of a panic, only the message of the panic hook remains.
pub fn quietly(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "it gave no message",
    }
}

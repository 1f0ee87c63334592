//! Notes of the compiler, which go to Python's `logging`.

use crate::error::in_python;
use pyo3::prelude::*;
use pyo3::types::PyAnyMethods;

/// Sends notes of the compiler to the logger `ovolo`.
pub fn to_logging() {
    ovolo_cli::on_note(log);
}

/// Sends a note to the logger `ovolo`: one about something that the user may want to change as a warning, others as
/// information.
pub fn log(text: &str) {
    let (level, text) = match text.strip_prefix("note: ") {
        Some(rest) => ("warning", rest),
        None => ("info", text),
    };
    Python::attach(|py| {
        let logged = py
            .import("logging")
            .and_then(|logging| logging.call_method1("getLogger", ("ovolo",)))
            .and_then(|logger| logger.call_method1(level, ("%s", in_python(text))));
        // A note is told from the middle of a compilation, which a broken handler must not end.
        if let Err(broken) = logged {
            broken.write_unraisable(py, None);
        }
    });
}

//! What runs of the program said, for tests that expect success or one error.
#![allow(clippy::unwrap_used)]

use std::process::Output;

/// Returns what a run of the program printed, after a check that it succeeded.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Checks that a run of the program ended with this code, and with an error that says this.
pub fn refused(output: &Output, code: i32, what: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(what), "{error}");
    assert_eq!(output.status.code(), Some(code), "{error}");
}

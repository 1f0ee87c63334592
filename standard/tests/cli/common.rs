//! Functions that the tests of the program share.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/common/mod.rs"]
mod shared;

pub use shared::*;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a folder that also contains its cache, with the native pipeline unless another is
/// named.
pub fn ovolo(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command
        .args(arguments)
        .current_dir(at)
        .env("OVOLO_CACHE", at.join("cache"))
        .env("OVOLO_PIPELINE", "native")
        .output()
        .unwrap()
}

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

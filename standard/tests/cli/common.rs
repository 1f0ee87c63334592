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

//! Runs kernels and plans once under AddressSanitizer, which finds reads and writes outside a buffer.
//!
//! It needs a nightly toolchain (`rustup toolchain install nightly`). If there is none, the task says so and
//! succeeds, unless `OVOLO_REQUIRE_ASAN` is set. Under `--cfg asan` every tensor is a separate allocation of
//! exactly its bytes, and tests do not put poison around their buffers, so that the sanitizer guards what
//! lies beside them.

use super::python::build_folder;
use std::process::Command;

/// The arguments of `cargo test` for each run, after those that build with the sanitizer.
const RUNS: &[&[&str]] = &[
    // Every family of native kernels against the reference evaluation.
    &["--package", "ovolo-native", "--test", "kernels"],
    &["--package", "ovolo-tests", "--test", "framework", "--", "session::"],
    // Each lowered op in the rules' examples, and the plans of examples and cases; models take too long.
    &["--package", "ovolo-tests", "--test", "kernels", "--", "--skip", "model::", "--skip", "every_"],
    &["--package", "ovolo-team", "--lib"],
];

/// The target is given explicitly, so that build scripts and macros are built without the sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs all of them.
pub fn run(words: &[String]) -> Result<(), String> {
    super::none(words)?;
    if let Err(why) = toolchain() {
        if std::env::var_os("OVOLO_REQUIRE_ASAN").is_some() {
            return Err(why);
        }
        println!("skipped: kernels and plans under AddressSanitizer: {why}");
        return Ok(());
    }
    for arguments in RUNS {
        println!("under AddressSanitizer: {}", arguments.join(" "));
        let mut command = Command::new("cargo");
        command
            .args(["+nightly", "test", "--release", "--target", TARGET])
            .args(*arguments)
            .env("RUSTFLAGS", "-Zsanitizer=address --cfg asan -Awarnings")
            .env("CARGO_TARGET_DIR", build_folder().join("asan"))
            // Most of the time goes into building. A low optimisation level halves it, and reads and writes
            // the same memory.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            // Cargo's own variables refer to the toolchain that runs this task.
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            // Memory that lives until the process ends is not a mistake.
            .env("ASAN_OPTIONS", "detect_leaks=0");
        let status = command.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("AddressSanitizer: {} failed", arguments.join(" ")));
        }
    }
    Ok(())
}

/// Checks that a nightly toolchain with the sanitizer for this machine is present; the error is the reason if
/// not.
fn toolchain() -> Result<(), String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(format!("the task supports {TARGET} only"));
    }
    let said = Command::new("rustc")
        .args(["+nightly", "--print", "sysroot"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .output();
    let said = said.map_err(|error| format!("rustc: {error}"))?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        let why =
            why.lines().find(|line| !line.trim().is_empty()).unwrap_or("rustc gave no reason").to_owned();
        return Err(format!("a nightly toolchain is absent (`rustup toolchain install nightly`): {why}"));
    }
    let sysroot = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let libraries = std::path::Path::new(&sysroot).join("lib/rustlib").join(TARGET).join("lib");
    let runtime = libraries.join("librustc-nightly_rt.asan.a");
    if runtime.exists() { Ok(()) } else { Err(format!("{} is absent", runtime.display())) }
}

//! Tests the language server with a client in Python, and the grammar for VS Code with the packages that VS Code uses.
//!
//! `cargo xtask editors` installs both into the build folder.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder in which the task installs them, if a file is there.
fn installed(file: &str) -> Result<PathBuf, String> {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("there is no build folder")?;
    let path = build.join("editors").join(file);
    match path.exists() {
        true => Ok(build.join("editors")),
        false => Err(format!("{} is absent; `cargo xtask editors` installs it", path.display())),
    }
}

/// The Python interpreter that has the client.
pub fn python() -> Result<PathBuf, String> {
    Ok(installed("stamp")?.join("bin/python"))
}

/// The folder with the packages of Node.js.
pub fn node_packages() -> Result<PathBuf, String> {
    let folder = installed("node/stamp")?.join("node");
    Command::new("node").arg("--version").output().map_err(|error| format!("node: {error}"))?;
    Ok(folder)
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
}

pub fn a_client_drives_the_language_server() {
    let test = crate::common::root().join("lsp/tests/client");
    let mut command = Command::new(python().unwrap());
    command
        .args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(["-o", "asyncio_default_fixture_loop_scope=function", "--rootdir"])
        .arg(&test)
        .arg(&test);
    succeeds(command.env("OVOLO", env!("CARGO_BIN_EXE_ovolo")));
}

pub fn the_grammar_names_the_parts_of_sample_lines() {
    let test = crate::common::root().join("editors/vscode/test/grammar.js");
    succeeds(Command::new("node").arg(test).arg(node_packages().unwrap()));
}

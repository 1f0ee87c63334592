//! `cargo xtask editors`: installs what the tests of the language server need: a client in Python and, if there is npm,
//! the packages by which VS Code reads grammars.

use crate::python::{build_folder, command, with};
use std::path::Path;
use std::process::Command;

/// The packages from the Python package index.
const PYTHON: &[&str] = &["pytest-lsp==1.0.1", "pytest==9.2.0"];

/// The packages from npm.
const NODE: &[&str] = &["vscode-textmate@9.1.0", "vscode-oniguruma@2.0.1"];

/// Installs the packages into environments of their own in the build folder.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    let folder = build_folder().join("editors");
    if stamped(&folder.join("stamp"), PYTHON) {
        println!("{} is up to date", folder.display());
    } else {
        let python = with(&folder, PYTHON)?;
        stamp(&folder.join("stamp"), PYTHON)?;
        println!("{} has {}", python.display(), PYTHON.join(", "));
    }
    if Command::new("npm").arg("--version").output().is_err() {
        println!("there is no npm, so the test of the grammar is not run");
        return Ok(());
    }
    let node = folder.join("node");
    if stamped(&node.join("stamp"), NODE) {
        println!("{} is up to date", node.display());
        return Ok(());
    }
    std::fs::create_dir_all(&node).map_err(|error| format!("{}: {error}", node.display()))?;
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&node).args(NODE);
    command(&mut install)?;
    stamp(&node.join("stamp"), NODE)?;
    println!("{} has {}", node.display(), NODE.join(", "));
    Ok(())
}

fn stamped(stamp: &Path, packages: &[&str]) -> bool {
    std::fs::read_to_string(stamp).is_ok_and(|kept| kept == packages.join(" "))
}

fn stamp(stamp: &Path, packages: &[&str]) -> Result<(), String> {
    std::fs::write(stamp, packages.join(" ")).map_err(|error| format!("{}: {error}", stamp.display()))
}

//! `cargo xtask models`: makes the models that `tests/models.rs` compares with.

use crate::python::{build_folder, command, remove, root, with};
use std::path::Path;
use std::process::Command;

/// The packages that are installed, from the Python package index.
const PACKAGES: &[&str] = &["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.31.1"];

/// Makes the models in the build folder, unless they are there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    let (root, target) = (root(), build_folder());
    let script = root.join("xtask/python/models.py");
    let sources = root.join("tests/models");
    let out = target.join("models");
    let stamp = stamp(&script, &sources)?;
    if std::fs::read_to_string(out.join("stamp")).is_ok_and(|kept| kept == stamp) {
        println!("the models in {} are up to date", out.display());
        return Ok(());
    }
    let python = with(&target.join("python"), PACKAGES)?;
    let temporary = target.join("models.tmp");
    remove(&temporary)?;
    std::fs::create_dir_all(&temporary).map_err(|error| format!("{}: {error}", temporary.display()))?;
    println!("making models in {}", out.display());
    command(Command::new(python).arg(script).arg(sources).arg(&temporary))?;
    std::fs::write(temporary.join("stamp"), stamp)
        .map_err(|error| format!("{}: {error}", temporary.display()))?;
    remove(&out)?;
    std::fs::rename(&temporary, &out).map_err(|error| format!("{}: {error}", out.display()))
}

/// What the models depend on: the packages, the script, and the sizes of the stripped files.
fn stamp(script: &Path, sources: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(script).map_err(|error| format!("{}: {error}", script.display()))?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(sources).map_err(|error| format!("{}: {error}", sources.display()))? {
        let entry = entry.map_err(|error| error.to_string())?;
        let size = entry.metadata().map_err(|error| error.to_string())?.len();
        files.push(format!("{} {size}", entry.file_name().to_string_lossy()));
    }
    files.sort();
    Ok(format!("{}\n{}\n{text}", PACKAGES.join(" "), files.join("\n")))
}

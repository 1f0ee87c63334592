//! `cargo xtask unseen`: makes networks that nothing in the project was tuned on, for
//! `cargo xtask race --unseen`.

use crate::python::{build_folder, command, remove, root, with};
use std::process::Command;

/// The packages that are installed, from the Python package index.
pub const PACKAGES: &[&str] = &[
    "numpy==2.4.6",
    "onnx==1.23.2",
    "onnxruntime==1.32.0",
    "onnxscript==0.7.2",
    "timm==1.0.31",
    "torch==2.15.0",
    "torchvision==0.29.2",
    "transformers==5.24.0",
];

/// Makes the networks in the build folder, unless they are there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    let target = build_folder();
    let script = root().join("xtask/python/unseen.py");
    let out = target.join("unseen");
    let text = std::fs::read_to_string(&script).map_err(|error| format!("{}: {error}", script.display()))?;
    let stamp = format!("{}\n{text}", PACKAGES.join(" "));
    if std::fs::read_to_string(out.join("stamp")).is_ok_and(|kept| kept == stamp) {
        println!("the networks in {} are up to date", out.display());
        return Ok(());
    }
    let python = with(&target.join("torch"), PACKAGES)?;
    let temporary = target.join("unseen.tmp");
    remove(&temporary)?;
    std::fs::create_dir_all(&temporary).map_err(|error| format!("{}: {error}", temporary.display()))?;
    println!("making networks in {}", out.display());
    command(Command::new(python).arg(script).arg(&temporary))?;
    std::fs::write(temporary.join("stamp"), stamp)
        .map_err(|error| format!("{}: {error}", temporary.display()))?;
    remove(&out)?;
    std::fs::rename(&temporary, &out).map_err(|error| format!("{}: {error}", out.display()))
}

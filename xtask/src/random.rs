//! Compares random models with the reference evaluation and with ONNX Runtime.

use crate::python;
use std::process::Command;

/// The packages that the comparison needs.
const PACKAGES: [&str; 3] = ["numpy", "onnx", "onnxruntime"];

/// Builds and runs the crate `ovolo-random`. The words are its settings: `--count N`, `--seed S` and others.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(python::root()).args(["run", "--release", "-p", "ovolo-random", "--"]).args(words);
    if !words.iter().any(|word| word == "--python") {
        let folder = python::build_folder().join("random-python");
        command.arg("--python").arg(python::with(&folder, &PACKAGES)?);
    }
    python::command(&mut command)
}

//! `cargo xtask race`: compares the latencies of ovolo and of other runtimes on this machine, in turns.

use crate::python::{build_folder, command, root, with};
use std::process::Command;

/// The packages that are installed, from the Python package index. The versions are those of the published tables.
const PACKAGES: &[&str] = &[
    "numpy==2.4.6",
    "onnx==1.23.2",
    "onnxruntime==1.32.0",
    "openvino==2026.4.1",
    "tract==0.23.9",
    "ncnn==1.0.20261020",
    "pnnx==20261020",
];

/// Builds ovolo, makes the ten networks with weights from seeds, installs the other runtimes and runs
/// `benches/peers.py`. With `--unseen`, the networks are those of `cargo xtask unseen`. With `--processor avx2`, `avx512` or
/// `vnni`, all runtimes run as on a processor with fewer instruction sets. Other words are handed on to the script.
pub fn run(words: &[String]) -> Result<(), String> {
    let target = build_folder();
    command(Command::new(env!("CARGO")).current_dir(root()).args(["build", "--release"]))?;
    crate::onednn::run(&[])?;
    let (unseen, words): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| *word == "--unseen");
    let folder = if unseen.is_empty() {
        crate::models::run(&[])?;
        "models"
    } else {
        crate::unseen::run(&[])?;
        "unseen"
    };
    let (kind, words) = processor(&words)?;
    let python = with(&target.join("race"), PACKAGES)?;
    let mut race = Command::new(&python);
    if let Some(kind) = kind {
        race.arg(root().join("benches/processor.py")).arg(kind).arg(&python);
    }
    race.arg(root().join("benches/peers.py"))
        .arg(target.join("release").join("ovolo"))
        .arg(target.join(folder));
    command(race.args(words))
}

/// The kind of processor that `--processor` names, and the other words.
fn processor<'a>(words: &[&'a String]) -> Result<(Option<&'a String>, Vec<&'a String>), String> {
    let Some(at) = words.iter().position(|word| *word == "--processor") else {
        return Ok((None, words.to_vec()));
    };
    let kind = words.get(at + 1).ok_or("--processor needs avx2, avx512 or vnni")?;
    Ok((Some(kind), [&words[..at], &words[at + 2..]].concat()))
}

//! `cargo xtask cuda-survey [WORD…]`: asks cuDNN about every graph of operations that rules find in ten networks.
//!
//! Two versions are asked, the newest one and the one that PyTorch 2.11 brings, for three described devices, four
//! pipelines and three batches. Each engine that a rule can choose is finalised. That takes hours; the answers are kept
//! in the build folder, so a survey that was interrupted goes on where it was. Words choose devices, pipelines and
//! batches, such as `H100 cuda-f16 1`. What is complete is added to `cuda/survey.tsv`, of which the documentation has a
//! table.

use super::cuda_libraries::{self, CUDNN};
use super::python::{build_folder, command, root, with};
use super::wheel::Wheel;
use super::{nvrtc, unseen};
use std::path::Path;
use std::process::Command;

/// cuDNN 9.19, which PyTorch 2.11 requires.
const OLDER: Wheel = Wheel {
    package: "nvidia-cudnn-cu12==9.19.0.56",
    sha256: "ac6ad90a075bb33a94f2b4cf4622eac13dd4dc65cf6dd9c7572a318516a36625",
    folder: "cudnn-9.19",
    files: &[
        "libcudnn.so.9",
        "libcudnn_adv.so.9",
        "libcudnn_cnn.so.9",
        "libcudnn_engines_precompiled.so.9",
        "libcudnn_engines_runtime_compiled.so.9",
        "libcudnn_graph.so.9",
        "libcudnn_heuristic.so.9",
        "libcudnn_ops.so.9",
    ],
    ..CUDNN
};

/// The networks that a script makes, and their batches; the tenth network, `nasrnn`, is in the repository.
const SURVEYED: &str = include_str!("../../cuda/surveyed.txt");

/// Returns the words of a line of [`SURVEYED`].
fn surveyed(what: &str) -> impl Iterator<Item = &'static str> {
    SURVEYED.lines().filter_map(move |line| line.strip_prefix(what)).flat_map(str::split_whitespace)
}

/// Fetches and makes what is absent, and asks both versions.
pub fn run(words: &[String]) -> Result<(), String> {
    nvrtc::run(&[])?;
    cuda_libraries::run(&[])?;
    OLDER.fetch()?;
    let folder = build_folder().join("cuda-survey");
    networks(&folder.join("networks"))?;
    for wheel in [CUDNN, OLDER] {
        println!("asking {}", wheel.package);
        let mut test = Command::new("cargo");
        test.current_dir(root()).args(["test", "--release", "--package", "ovolo-cuda", "--lib", "--"]);
        test.args(["--ignored", "--nocapture", "every_graph_of_the_networks_has_plans"]);
        test.env("OVOLO_CUDNN", build_folder().join(wheel.folder)).env("OVOLO_SURVEY_FOLDER", &folder);
        command(test.env("OVOLO_SURVEY", words.join(" ")))?;
    }
    Ok(())
}

/// Makes the networks that are absent.
fn networks(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut python = None;
    for network in surveyed("networks") {
        for batch in surveyed("batches") {
            let file = folder.join(format!("{network}-{batch}.onnx"));
            if file.exists() {
                continue;
            }
            let python = match &python {
                Some(python) => python,
                None => python.insert(with(&build_folder().join("torch"), unseen::PACKAGES)?),
            };
            println!("making {network} for batch {batch}");
            let mut script = Command::new(python);
            script.arg(root().join("xtask/python/gpu.py")).args(["graph", network, batch]);
            command(script.arg(&file))?;
        }
    }
    Ok(())
}

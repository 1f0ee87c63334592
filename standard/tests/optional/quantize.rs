//! Tests that ONNX Runtime runs what `quantize` writes.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo, root};
use ovolo::npy;
use std::path::Path;
use std::process::{Command, Output};

/// Checks a model by the rules of ONNX, runs it on an input, and writes its first output.
const SCRIPT: &str = "
import sys, numpy, onnx, onnxruntime
model, name, values, output = sys.argv[1:]
onnx.checker.check_model(onnx.load(model), full_check=True)
session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])
numpy.save(output, session.run(None, {name: numpy.load(values)})[0])
";

/// The Python with ONNX Runtime.
fn program() -> String {
    std::env::var("OVOLO_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Returns whether Python has ONNX and its runtime.
pub fn runtime() -> Result<(), String> {
    let python = program();
    let found = Command::new(&python).args(["-c", "import onnx, onnxruntime"]).output();
    let found = found.map_err(|error| format!("{python}: {error}"))?;
    let why =
        || format!("{python}: {}", String::from_utf8_lossy(&found.stderr).lines().last().unwrap_or_default());
    if found.status.success() { Ok(()) } else { Err(why()) }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn values(file: &Path) -> Vec<f64> {
    npy::read(file).unwrap().to_f64()
}

pub fn onnx_runtime_gives_the_outputs_of_quantised_models_within_a_level() {
    let at = folder("quantize-runtime");
    let example = |file: &str| root().join("examples/digits").join(file).display().to_string();
    let (model, images) = (example("digits.onnx"), example("images.npy"));
    let input = format!("image={images}");
    for calibration in ["min-max", "entropy", "percentile:99.9"] {
        let given =
            ["quantize", &model, "--input", &input, "--for", "size", "--loss", "0.2", "--cost", "flops"];
        let more = ["--calibration", calibration, "--output", "int8.onnx"];
        succeeded(&ovolo(&at, &[&given[..], &more].concat()));
        let run = ["run", "int8.onnx", "--input", &input, "--cost", "flops", "--output-dir", "ours"];
        succeeded(&ovolo(&at, &run));
        let mut python = Command::new(program());
        python.args(["-c", SCRIPT, "int8.onnx", "image", &images, "theirs.npy"]).current_dir(&at);
        succeeded(&python.output().unwrap());
        let (ours, theirs) = (values(&at.join("ours/scores.npy")), values(&at.join("theirs.npy")));
        assert_eq!(ours.len(), 3600);
        let (low, high) =
            theirs.iter().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
        // Sums are rounded in another order, so a value between two levels may get the other one.
        let level = (high - low) / 255.0;
        let most = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(most <= level, "{calibration}: {most} is more than {level}");
    }
}

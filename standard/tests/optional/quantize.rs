//! Tests that ONNX Runtime runs what `quantize` writes.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo, root};
use ovolo::npy;
use std::path::Path;
use std::process::{Command, Output};

/// Checks a model by the rules of ONNX, runs it on an input, and writes its first output.
const SCRIPT: &str = "
import os, sys, numpy, onnx, onnxruntime
model, name, values, output = sys.argv[1:]
onnx.checker.check_model(onnx.load(model), full_check=True)
options = onnxruntime.SessionOptions()
# Without `vpdpbusd`, sums of its kernels for integers saturate.
known = '/proc/cpuinfo'
if os.path.exists(known) and 'vnni' not in open(known).read():
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
numpy.save(output, session.run(None, {name: numpy.load(values)})[0])
";

/// Writes a network with each kind of layer that is quantised besides those of the digits, four images and the first one.
const NETWORK: &str = "
import numpy, onnx
from onnx import helper, numpy_helper
draw = numpy.random.default_rng(1)
def constant(name, *shape):
    return numpy_helper.from_array((draw.normal(size=shape) * 0.06).astype('f4'), name)
node, value = helper.make_node, helper.make_tensor_value_info
nodes = [
    node('Conv', ['x', 'u'], ['first'], pads=[1] * 4),
    node('Relu', ['first'], ['begin']),
    node('Conv', ['begin', 'v'], ['second'], pads=[1] * 4),
    node('Add', ['second', 'begin'], ['sum']),
    node('MaxPool', ['sum'], ['greatest'], kernel_shape=[2, 2], strides=[2, 2]),
    node('ConvTranspose', ['greatest', 't', 'b'], ['wide'], pads=[1] * 4),
    node('AveragePool', ['wide'], ['smooth'], kernel_shape=[3, 3], pads=[1] * 4),
    node('Conv', ['smooth', 'w'], ['last'], pads=[1] * 4),
    node('GlobalAveragePool', ['last'], ['y']),
]
weights = [constant(name, 32, 32, 3, 3) for name in 'uvtw'] + [constant('b', 32)]
inputs, outputs = [value('x', 1, [1, 32, 20, 20])], [value('y', 1, [1, 32, 1, 1])]
graph = helper.make_graph(nodes, 'network', inputs, outputs, weights)
opsets = [helper.make_opsetid('', 17)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), 'network.onnx')
images = draw.normal(size=(4, 32, 20, 20)).astype('f4')
numpy.save('images.npy', images)
numpy.save('image.npy', images[:1])
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

pub fn onnx_runtime_gives_the_outputs_of_sums_and_pools_of_levels_within_a_level() {
    let at = folder("quantize-runtime-pools");
    let python = |arguments: &[&str]| {
        succeeded(&Command::new(program()).arg("-c").args(arguments).current_dir(&at).output().unwrap());
    };
    python(&[NETWORK]);
    let given = ["quantize", "network.onnx", "--input", "x=images.npy", "--loss", "0.2", "--cost", "flops"];
    let output = ovolo(&at, &[&given[..], &["--output", "int8.onnx", "--json"]].concat());
    succeeded(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let chosen: Vec<&str> = report["layers"].as_array().unwrap().iter().filter_map(chosen_operator).collect();
    for operator in ["Add", "MaxPool", "ConvTranspose", "AveragePool", "GlobalAveragePool"] {
        assert!(chosen.contains(&operator), "{operator} stays in float32: {report}");
    }
    let run = ["run", "int8.onnx", "--input", "x=image.npy", "--cost", "flops", "--output-dir", "ours"];
    succeeded(&ovolo(&at, &run));
    python(&[SCRIPT, "int8.onnx", "x", "image.npy", "theirs.npy"]);
    let (ours, theirs) = (values(&at.join("ours/y.npy")), values(&at.join("theirs.npy")));
    assert_eq!(ours.len(), 32);
    let greatest = |values: &mut dyn Iterator<Item = f64>| values.map(f64::abs).fold(0.0, f64::max);
    let most = greatest(&mut ours.iter().zip(&theirs).map(|(one, other)| one - other));
    let level = 2.0 * greatest(&mut theirs.iter().copied()) / 255.0;
    assert!(most <= level, "{most} is more than {level}");
}

/// Returns the operator of a layer of a report, if the layer is chosen.
fn chosen_operator(layer: &serde_json::Value) -> Option<&str> {
    layer["operator"].as_str().filter(|_| layer["chosen"] == true)
}

//! `cargo xtask gpu`: what only a machine with a device of NVIDIA can tell, in one table.
//!
//! Values of every generated kernel and of the ten models against the reference, on the device; times of the
//! models beside PyTorch's, where its package is there; and the sanitizer, where that is. What could not be
//! measured stands in the table with the reason. Where there is no device it says so, and fails.

use crate::python::{build_folder, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A line of the table.
struct Row {
    what: String,
    /// What came of it; `Err`: it failed.
    outcome: Result<String, String>,
}

/// The models.
const MODELS: &[&str] = &[
    "resnet50",
    "mobilenet_v2",
    "squeezenet1_1",
    "vgg16",
    "inception_v3",
    "resnext50_32x4d",
    "efficientnet_b0",
    "bert_base",
    "vit_b_16",
    "nasrnn",
];

/// Precisions, and the pipelines that round so.
const PRECISIONS: &[(&str, &str)] =
    &[("float32", "cuda"), ("TF32", "cuda-tf32"), ("float16", "cuda-f16"), ("bfloat16", "cuda-bf16")];

/// Kernels that memory bounds, and the bytes that each moves: tensors of 256 MiB.
const STREAMS: &[(&str, &str, f64)] = &[
    ("relu of 256 MiB", "x: f32[67108864] = input\ny = relu(x)\nreturn y", 2.0),
    ("gelu after a product, 256 MiB", "x: f32[67108864] = input\na = mul(x, x)\ny = gelu(a)\nreturn y", 2.0),
    ("sums of rows, 256 MiB", "x: f32[65536,1024] = input\ny = reduce-sum(x) {axes: [1]}\nreturn y", 1.0),
    ("softmax of rows, 256 MiB", "x: f32[65536,1024] = input\ny = softmax(x) {axis: 1}\nreturn y", 2.0),
];

/// Runs everything, prints the table; an error where there is no device, or a check failed.
pub fn run() -> Result<(), String> {
    cargo(&["build", "--release", "--workspace"], &[])?;
    let ovolo = build_folder().join("release/ovolo");
    let doctor = text(&finished(Command::new(&ovolo).arg("doctor"))?);
    let device = doctor.lines().find(|line| line.starts_with("backend cuda: ")).unwrap_or_default();
    if !device.starts_with("backend cuda: driver ") {
        return Err(format!("there is no device of NVIDIA here, so nothing was measured\n{device}"));
    }
    crate::nvrtc::run()?;
    let mut rows = vec![Row { what: "device".into(), outcome: Ok(device.to_owned()) }];
    rows.push(row("values of kernels, plans and models", tests("device::", None)));
    rows.push(row("values of libraries' kernels", tests("library::", None)));
    models(&ovolo, &mut rows);
    for (name, source, tensors) in STREAMS {
        rows.push(row(name, stream(&ovolo, source, *tensors)));
    }
    rows.extend(sanitizer(&ovolo));
    let wide = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    for Row { what, outcome } in &rows {
        let said = outcome.as_ref().map_or_else(|why| format!("FAILED: {why}"), Clone::clone);
        println!("{what:wide$}  {said}");
    }
    match rows.iter().filter(|row| row.outcome.is_err()).count() {
        0 => Ok(()),
        count => Err(format!("{count} of {} lines failed", rows.len())),
    }
}

fn row(what: &str, outcome: Result<String, String>) -> Row {
    Row { what: what.to_owned(), outcome }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command says; an error where it fails.
fn finished(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &text(&output);
    let last: Vec<&str> = said.lines().rev().take(6).collect();
    Err(format!("{name}: {}: {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join(" | ")))
}

fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output, String> {
    finished(Command::new("cargo").current_dir(root()).args(arguments).envs(variables.iter().copied()))
}

/// The tests of some name on the device, under a tool where one is given; the line that counts them.
fn tests(name: &str, under: Option<&str>) -> Result<String, String> {
    let mut variables = vec![("OVOLO_TEST_DEVICE", "1"), ("OVOLO_REQUIRE_NVRTC", "1")];
    variables.extend(under.map(|tool| ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", tool)));
    let output =
        cargo(&["test", "--release", "--test", "cuda", "--", "--test-threads", "1", name], &variables)?;
    let said = text(&output);
    let counted = said.lines().find(|line| line.starts_with("test result:"));
    Ok(counted.unwrap_or("no test ran").to_owned())
}

/// The median of a model's runs in milliseconds, by a pipeline.
fn median(ovolo: &Path, name: &str, pipeline: &str) -> Result<f64, String> {
    let model = root().join("tests/models").join(format!("{name}.onnx"));
    let mut command = Command::new(ovolo);
    command
        .args(["bench", "--seeded-weights", "--pipeline", pipeline, "--seconds", "3", "--json"])
        .arg(model);
    let said = text(&finished(&mut command)?);
    number(&said, "\"median_ms\":").ok_or_else(|| "there is no median".to_owned())
}

/// The median of a model's runs in each precision, PyTorch's beside it, and the ratios of each precision.
fn models(ovolo: &Path, rows: &mut Vec<Row>) {
    let torch = torch();
    for (precision, pipeline) in PRECISIONS {
        let mut ratios = Vec::new();
        for name in MODELS {
            let ours = median(ovolo, name, pipeline);
            let peer = match &torch {
                Ok(lines) => {
                    peer(lines, name, precision).ok_or_else(|| "the script has no such model".to_owned())
                }
                Err(why) => Err(why.clone()),
            };
            if let (Ok(ours), Ok((_, best))) = (&ours, &peer) {
                ratios.push(ours / best);
            }
            let peer = peer.map_or_else(|why| format!("not measured: {why}"), |(times, _)| times);
            rows.push(row(
                &format!("{name}, batch 1, {precision}, ms"),
                ours.map(|ours| format!("{ours:.3}; PyTorch {peer}")),
            ));
        }
        let said = if ratios.is_empty() {
            "not measured: PyTorch was not".to_owned()
        } else {
            format!("{:.3} over {} models", geometric_mean(&ratios), ratios.len())
        };
        rows.push(row(&format!("ours / the best of PyTorch's, {precision}, geometric mean"), Ok(said)));
    }
    rows.push(row("batches of 8 and 32", Ok("not measured: the models have a batch of 1".into())));
}

/// PyTorch's times of a model in a precision, and the least of them.
fn peer(lines: &[String], name: &str, precision: &str) -> Option<(String, f64)> {
    let times = lines.iter().find_map(|line| line.strip_prefix(&format!("{name} {precision} ")))?;
    let numbers = times.split([' ', ',']).filter_map(|word| word.parse::<f64>().ok());
    Some((times.to_owned(), numbers.reduce(f64::min)?))
}

#[allow(clippy::cast_precision_loss)]
fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// A line of PyTorch's times for each model it has.
fn torch() -> Result<Vec<String>, String> {
    let script = root().join("xtask/python/gpu.py");
    let said = finished(Command::new("python3").arg(script))?;
    Ok(text(&said).lines().map(str::to_owned).collect())
}

/// Bytes a second of a kernel that moves a tensor so many times.
fn stream(ovolo: &Path, source: &str, tensors: f64) -> Result<String, String> {
    let file: PathBuf = build_folder().join("tmp-gpu.ovolo");
    std::fs::write(&file, format!("graph {{\n{source}\n}}\n")).map_err(|error| error.to_string())?;
    let mut command = Command::new(ovolo);
    command.args(["bench", "--pipeline", "cuda", "--no-cache", "--profile", "--seconds", "1"]).arg(&file);
    let said = text(&finished(&mut command)?);
    // The first column of a step's line is its microseconds; copies are the host's link.
    let generated = |line: &&str| {
        let steps = ["cuda.upload", "cuda.download"];
        line.contains(" cuda.") && !steps.iter().any(|step| line.contains(step))
    };
    let micros: f64 = said
        .lines()
        .filter(generated)
        .filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .sum();
    if micros <= 0.0 {
        return Err("the profile has no such step".into());
    }
    let bytes = tensors * f64::from(1 << 28);
    Ok(format!("{:.0} GB/s, starting and waiting included", bytes / micros / 1e3))
}

/// The sanitizer over the plans of the tests and a model.
fn sanitizer(ovolo: &Path) -> Vec<Row> {
    const TOOL: &str = "compute-sanitizer";
    if Command::new(TOOL).arg("--version").output().is_err() {
        return vec![row(TOOL, Ok("not measured: it is not on the path".into()))];
    }
    let model = root().join("tests/models/squeezenet1_1.onnx");
    let mut command = Command::new(TOOL);
    command.args(["--error-exitcode", "9"]).arg(ovolo);
    command.args(["run", "--seeded-weights", "--pipeline", "cuda", "--no-cache"]).arg(model);
    let clean = |_| "clean".to_owned();
    vec![
        row(
            "compute-sanitizer: kernels",
            tests("device::kernels", Some("compute-sanitizer --error-exitcode 9")),
        ),
        row("compute-sanitizer: plans", tests("device::graph", Some("compute-sanitizer --error-exitcode 9"))),
        row("compute-sanitizer: squeezenet1_1", finished(&mut command).map(clean)),
    ]
}

/// The number after a key.
fn number(text: &str, key: &str) -> Option<f64> {
    let rest = &text[text.find(key)? + key.len()..];
    rest.split([',', '}']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_of_two_peers_counts_in_its_own_precision() {
        let lines = ["vgg16 float32 eager 3.250, compiled 2.750", "vgg16 TF32 eager 1.500, compiled 1.750"];
        let lines = lines.map(str::to_owned);
        assert_eq!(peer(&lines, "vgg16", "float32").unwrap().1, 2.75);
        assert_eq!(peer(&lines, "vgg16", "TF32"), Some(("eager 1.500, compiled 1.750".to_owned(), 1.5)));
        assert_eq!(peer(&lines, "vgg16", "float16"), None);
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
    }
}

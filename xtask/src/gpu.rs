//! `cargo xtask gpu [WORD…]`: measures what needs a machine with an NVIDIA device, and prints one table.
//!
//! The table contains: values of every generated kernel and of the test models compared with the reference,
//! on the device; times and errors of networks compared with PyTorch's, by batch and precision, with the
//! geometric means of our time over the better of PyTorch's eager and compiled times; convolutions and
//! attention by each way to compute them; the share of the copy's bandwidth that fused kernels reach; and the
//! sanitizer. A line that could not be measured gives the reason. Without a device, the task says so and
//! fails.
//!
//! With words, only lines whose names contain all of them are measured. Measurements are kept in
//! `gpu/rows.tsv` in the build folder, and appear in the table of every later run of the same commit on the
//! same device, so that the table can be made in parts.

mod engine;
mod network;
mod stream;
mod table;

use crate::python::{build_folder, root};
use std::path::Path;
use std::process::{Command, Output};
use table::{Row, Table};

/// Measures and prints the table. An error if there is no device, or if a check failed.
pub fn run(words: &[String]) -> Result<(), String> {
    cargo(&["build", "--release", "--workspace"], &[])?;
    let ovolo = build_folder().join("release/ovolo");
    let doctor = text(&finished(Command::new(&ovolo).arg("doctor"))?);
    let device = doctor.lines().find(|line| line.starts_with("backend cuda: ")).unwrap_or_default();
    if !device.starts_with("backend cuda: driver ") {
        return Err(format!("there is no NVIDIA device here, so nothing was measured\n{device}"));
    }
    crate::nvrtc::run(&[])?;
    let commit = finished(Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]));
    let commit = commit.map_or_else(|why| why, |output| text(&output).trim().to_owned());
    // Measurements made before an uncommitted change do not describe this program.
    let changed = finished(Command::new("git").current_dir(root()).args(["status", "--porcelain"]));
    let changed = !changed.is_ok_and(|output| text(&output).trim().is_empty());
    let file = build_folder().join("gpu/rows.tsv");
    if changed && file.exists() {
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let with = if changed { " with changes" } else { "" };
    let mut table = Table::open(&file, &format!("{device}, commit {commit}{with}"), words)?;
    table.measure("values of kernels, plans and models", || tests("device::", None).map(Row::said))?;
    table.measure("values of libraries' kernels", || tests("library::", None).map(Row::said))?;
    table.measure("values of cuDNN's graphs", || tests("library::graphs", None).map(Row::said))?;
    engine::measure(&ovolo, &mut table)?;
    network::measure(&ovolo, &mut table)?;
    stream::measure(&ovolo, &mut table)?;
    sanitizer(&ovolo, &mut table)?;
    print!("{}", table.text());
    match table.failed() {
        0 => Ok(()),
        count => Err(format!("{count} lines failed")),
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The output of a command; an error if it fails.
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

/// The script that measures PyTorch.
fn script() -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("xtask/python/gpu.py"));
    command
}

/// Runs the device tests with this name, under a tool if one is given. Returns the line that counts them.
fn tests(name: &str, under: Option<&str>) -> Result<String, String> {
    let mut variables = vec![("OVOLO_TEST_DEVICE", "1"), ("OVOLO_REQUIRE_NVRTC", "1")];
    variables.extend(under.map(|tool| ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", tool)));
    let output =
        cargo(&["test", "--release", "--test", "cuda", "--", "--test-threads", "1", name], &variables)?;
    let said = text(&output);
    let counted = said.lines().find(|line| line.starts_with("test result:"));
    Ok(counted.unwrap_or("no test ran").to_owned())
}

/// Runs the plans of the tests and one model under the sanitizer.
fn sanitizer(ovolo: &Path, table: &mut Table) -> Result<(), String> {
    const TOOL: &str = "compute-sanitizer";
    const UNDER: &str = "compute-sanitizer --error-exitcode 9";
    let there = || {
        let found = Command::new(TOOL).arg("--version").output();
        found.map(|_| ()).map_err(|_| table::open("it is not on the path"))
    };
    let of_tests = |name: &str| there().and_then(|()| tests(name, Some(UNDER)).map(Row::said));
    table.measure("compute-sanitizer: kernels", || of_tests("device::kernels"))?;
    table.measure("compute-sanitizer: plans", || of_tests("device::graph"))?;
    table.measure("compute-sanitizer: libraries", || of_tests("library::"))?;
    table.measure("compute-sanitizer: squeezenet1_1", || {
        there()?;
        let mut command = Command::new(TOOL);
        command.args(["--error-exitcode", "9"]).arg(ovolo);
        command.args(["run", "--seeded-weights", "--pipeline", "cuda", "--no-cache"]);
        command.arg(root().join("tests/models/squeezenet1_1.onnx"));
        finished(&mut command).map(|_| Row::said("clean".into()))
    })
}

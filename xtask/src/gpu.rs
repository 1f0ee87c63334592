//! `cargo xtask gpu [WORD…]`: measures what needs a machine with an NVIDIA device, and prints one table.
//!
//! The table contains: values of every generated kernel and of the test models compared with the reference,
//! on the device; times and errors of networks compared with PyTorch's, by batch and precision, with the
//! geometric means of our time over the best of PyTorch's eager and compiled times; convolutions and
//! attention by each way to compute them; the share of the copy's bandwidth that fused kernels reach; and the
//! sanitizer. A line that could not be measured gives the reason. Without a device, the task says so and
//! fails.
//!
//! With words, only lines whose names contain all of them are measured. Measurements are kept in `rows.tsv` in the
//! folder of results, and appear in the table of every later run of the same commit on the same device, so that the
//! table can be made in parts.
//!
//! `cargo xtask gpu pack FOLDER` writes a kit: programs, scripts and models. A machine with a device needs neither Rust
//! nor network for `FOLDER/measure gpu [WORD…]`, but the driver, NVRTC and the libraries, which are also found where
//! Python packages put them, and PyTorch for the comparison. `cargo xtask gpu rehearse` runs such a kit where there is
//! neither network nor device, up to the first call of the driver.

mod engine;
mod kit;
mod network;
mod rehearsal;
mod stream;
mod table;

use crate::python::root;
pub use kit::Kit;
use std::path::Path;
use std::process::{Command, Output};
use table::{Row, Table};

/// Measures and prints the table, or writes a kit. An error if there is no device, or if a check failed.
pub fn run(words: &[String]) -> Result<(), String> {
    let kit = Kit::open()?;
    if words == ["rehearse"] {
        return rehearse(&kit);
    }
    match words.split_first() {
        Some((word, [folder])) if word == "pack" => return kit.pack(Path::new(folder)),
        Some((word, _)) if word == "pack" => return Err("`gpu pack` needs one folder".to_owned()),
        _ => {}
    }
    let doctor = text(&finished(Command::new(&kit.ovolo).arg("doctor"))?);
    let line = |start: &str| doctor.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    let device = line("backend cuda: ");
    if !device.starts_with("backend cuda: driver ") {
        return Err(format!("there is no NVIDIA device here, so nothing was measured\n{device}"));
    }
    if !line("cuda NVRTC: ").starts_with("cuda NVRTC: NVRTC ") {
        if kit.packed {
            let said = line("cuda NVRTC: ");
            return Err(format!("kernels need NVRTC, and a kit does not fetch it\n{said}"));
        }
        crate::nvrtc::run(&[])?;
    }
    let file = kit.work.join("rows.tsv");
    // Measurements made before an uncommitted change do not describe this program.
    if !kit.repeatable && file.exists() {
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut table = Table::open(&file, &format!("{device}, commit {}", kit.commit), words)?;
    let tests = |name: &str| tests(&kit, name, &[]).map(Row::said);
    table.measure("values of kernels, plans and models", || tests("device::"))?;
    table.measure("values of libraries' kernels", || tests("library::"))?;
    table.measure("values of cuDNN's graphs", || tests("library::graphs"))?;
    engine::measure(&kit, &mut table)?;
    network::measure(&kit, &mut table)?;
    stream::measure(&kit, &mut table)?;
    sanitizer(&kit, &mut table)?;
    print!("{}", table.text());
    match table.failed() {
        0 => Ok(()),
        count => Err(format!("{count} lines failed")),
    }
}

/// Builds the programs of a kit, with words for Cargo.
pub fn built(words: &[String]) -> Result<Kit, String> {
    Kit::built(words)
}

/// Runs a kit without network and without a device, up to the first call of the driver.
pub fn rehearse(kit: &Kit) -> Result<(), String> {
    rehearsal::run(kit)
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

/// Runs the device tests with this name, under a tool if one is given. Returns the line that counts them.
fn tests(kit: &Kit, name: &str, under: &[&str]) -> Result<String, String> {
    let said = text(&finished(&mut kit.tests(name, under))?);
    let counted = said.lines().find(|line| line.starts_with("test result:"));
    Ok(counted.unwrap_or("no test ran").to_owned())
}

/// Runs the plans of the tests and one model under the sanitizer.
fn sanitizer(kit: &Kit, table: &mut Table) -> Result<(), String> {
    const TOOL: &str = "compute-sanitizer";
    const UNDER: &[&str] = &[TOOL, "--error-exitcode", "9"];
    let there = || {
        let found = Command::new(TOOL).arg("--version").output();
        found.map(|_| ()).map_err(|_| table::open("it is not on the path"))
    };
    let of_tests = |name: &str| there().and_then(|()| tests(kit, name, UNDER).map(Row::said));
    table.measure("compute-sanitizer: kernels", || of_tests("device::kernels"))?;
    table.measure("compute-sanitizer: plans", || of_tests("device::graph"))?;
    table.measure("compute-sanitizer: libraries", || of_tests("library::"))?;
    table.measure("compute-sanitizer: squeezenet1_1", || {
        there()?;
        let mut command = Command::new(TOOL);
        command.args(&UNDER[1..]).arg(&kit.ovolo);
        command.args(["bench", "--seeded-weights", "--pipeline", "cuda", "--no-cache", "--seconds", "0.01"]);
        command.arg(kit.root.join("tests/models/squeezenet1_1.onnx"));
        finished(&mut command).map(|_| Row::said("clean".into()))
    })
}

//! Developer tasks of the ovolo workspace: `cargo xtask TASK`.

mod gpu;
mod models;
mod nvrtc;
mod onednn;
mod python;
mod ray;
mod wheel;

use std::process::ExitCode;

/// A task: its name, what it does, and the function.
type Task = (&'static str, &'static str, fn() -> Result<(), String>);

/// Every task. A new one is a module and a line here.
const TASKS: &[Task] = &[
    ("gpu", "on a device of NVIDIA: values, times beside PyTorch's, sanitizer, one table", gpu::run),
    ("models", "make the models, inputs and ONNX Runtime's outputs that the value tests need", models::run),
    ("nvrtc", "fetch NVIDIA's run-time compiler, which the backend `cuda` needs", nvrtc::run),
    ("onednn", "fetch the library oneDNN, which the backend of that name needs", onednn::run),
    ("ray", "install the Python package Ray, which the test of experiments on a cluster needs", ray::run),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, _, task)) = TASKS.iter().find(|(known, _, _)| *known == name) else {
        eprintln!("usage: cargo xtask TASK");
        for (name, doc, _) in TASKS {
            eprintln!("  {name}: {doc}");
        }
        return ExitCode::from(2);
    };
    match task() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

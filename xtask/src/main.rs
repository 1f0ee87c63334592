//! Developer tasks of the ovolo workspace: `cargo xtask TASK`.

mod asan;
mod book;
mod cuda_checks;
mod cuda_libraries;
mod cuda_survey;
mod editors;
mod gpu;
mod models;
mod nvrtc;
mod onednn;
mod package;
mod python;
mod race;
mod random;
mod ray;
mod tables;
mod unseen;
mod wheel;

use std::process::ExitCode;

/// A task: its name, what it does, and the function, which gets the words after the name.
type Task = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

/// All tasks. A new task is a module and an entry here.
const TASKS: &[Task] = &[
    ("asan", "run kernels and plans under AddressSanitizer, where a nightly toolchain is present", asan::run),
    ("book", "build the documentation as a book, with mdBook", book::run),
    (
        "cuda-checks",
        "run everything that can be checked of the backend `cuda` without a device; words go to Cargo",
        cuda_checks::run,
    ),
    (
        "cuda-libraries",
        "fetch NVIDIA's libraries cuBLASLt and cuDNN (1.3 GB), which backends of these names need",
        cuda_libraries::run,
    ),
    (
        "cuda-survey",
        "ask two versions of cuDNN about every graph of ten networks, for three described devices (hours); words choose",
        cuda_survey::run,
    ),
    (
        "editors",
        "install what the tests of the language server need: pytest-lsp, and packages of npm",
        editors::run,
    ),
    (
        "gpu",
        "measure on an NVIDIA device: values, times compared with PyTorch's, sanitizer; words select lines of the table",
        gpu::run,
    ),
    ("models", "make the models, inputs and ONNX Runtime's outputs that the value tests need", models::run),
    ("nvrtc", "fetch NVIDIA's run-time compiler, which the backend `cuda` needs", nvrtc::run),
    ("onednn", "fetch the library oneDNN, which the backend of that name needs", onednn::run),
    ("python", "build and install the Python package, and run its tests; words go to pytest", package::run),
    (
        "race",
        "compare latencies with ONNX Runtime, OpenVINO, ncnn and tract on this machine; words go to benches/peers.py; \
         --unseen takes other networks",
        race::run,
    ),
    (
        "random",
        "compare random models with the reference evaluation and with ONNX Runtime: --count N, --seed S",
        random::run,
    ),
    (
        "tables",
        "time kernels of the ten networks and of drawn ones on this machine, for `ovolo costs fit`: NAME, --threads 1,2",
        tables::run,
    ),
    ("ray", "install the Python package Ray, which tests of experiments and of servers need", ray::run),
    ("unseen", "make networks that nothing was tuned on, for `race --unseen` (some GB)", unseen::run),
];

/// Refuses words after the name of a task that takes none.
fn none(words: &[String]) -> Result<(), String> {
    match words.first() {
        Some(word) => Err(format!("the task takes no words, but got `{word}`")),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, words) = words.split_first().map_or(("", &[][..]), |(name, words)| (name, words));
    let Some((_, _, task)) = TASKS.iter().find(|(known, _, _)| *known == name) else {
        eprintln!("usage: cargo xtask TASK [WORD…]");
        for (name, doc, _) in TASKS {
            eprintln!("  {name}: {doc}");
        }
        return ExitCode::from(2);
    };
    match task(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

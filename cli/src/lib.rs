//! The command line. Only this crate prints, exits, and reads the environment.
//!
//! Other programs get the same answers by a [`Job`], which prints nothing but notes; [`on_note`] takes those as well.
//! A [`CommandLine`] is this command line with commands of other crates.

mod ablate;
mod adding;
mod amount;
mod bench;
mod cache;
mod caching;
mod check;
mod command;
mod command_line;
mod compare;
mod compile;
mod costs;
mod doctor;
mod dynamic;
mod environment;
mod experiment;
mod explain;
mod extract;
mod fault;
mod features;
mod files;
mod fit;
mod fmt;
mod job;
mod load;
mod merge;
mod note;
mod pack;
mod page;

mod progress;
mod reduce;
mod refusal;
mod rules;
mod run;
mod save;
mod shell;
mod test;
mod timed;
mod tune;
mod value;

pub use command_line::{AddedCommand, CommandLine};
pub use job::{Job, Runnable};
pub use note::on_note;
pub use progress::Progress;
pub use refusal::Refusal;
pub use rules::{VerifySettings, verify_case, verify_rules};
pub use test::shown;

use clap::Args;
use ovolo::cache::Builds;
use ovolo::pass::choosing;
use ovolo::registry::Registry;
use ovolo::subprocess::Invocation;
use ovolo::tensor::Device;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from
/// others.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// The builds of the crates that a registry does not name; results cached by one build are not used by
/// another.
pub const BUILDS: Builds = &[
    ("ovolo-cli", BUILD),
    ("ovolo-lab", ovolo_lab::BUILD),
    ("ovolo-proof", ovolo_proof::BUILD),
    ("ovolo-tune", ovolo_tune::BUILD),
];

/// The result of a command: nothing, or a message for the user.
type Outcome = Result<(), String>;

/// How a model is compiled.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The model: an ONNX file, or a graph in text form, as `dump` prints it (.ovolo, .txt).
    pub model: PathBuf,
    /// The model that a graph in text form was printed from: it has the constants that stand in the text as
    /// hashes.
    #[arg(long, value_name = "MODEL")]
    pub weights: Option<PathBuf>,
    /// Bind a symbolic dimension.
    #[arg(long = "dim", value_name = "NAME=N")]
    pub dims: Vec<String>,
    /// The pipeline: a file, or the name of a shipped one.
    #[arg(long, env = "OVOLO_PIPELINE", default_value = Settings::PIPELINE)]
    pub pipeline: String,
    /// Add the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
    /// Add rules to a `Rewrite` of the pipeline: a rule, a rule file of the pipeline's folder by its name without ending, or
    /// a file (`new.ron:fuse`). May be given more than once.
    #[arg(long, value_name = "RULES:PHASE")]
    pub add: Vec<String>,
    /// The cost model, instead of the pipeline's.
    #[arg(long)]
    pub cost: Option<String>,
    /// Override prices of the shipped price list with those in this file (cost model `prices`). May be given
    /// more than once.
    #[arg(long, value_name = "FILE.ron", conflicts_with = "cost")]
    pub costs: Vec<PathBuf>,
    /// Price by the model in this file, which `ovolo fit` has written (cost model `learned`).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cost", "costs"])]
    pub learned: Option<PathBuf>,
    /// Price by a program, which this command starts (cost model `process`). The program gets the features of
    /// each kernel as a line of JSON, and answers with a line {"seconds": 1.2e-5}.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["cost", "costs", "learned"])]
    pub process: Option<String>,
    /// The seconds that this program may take for an answer.
    #[arg(
        long, value_name = "SECONDS", requires = "process", default_value_t = Invocation::PATIENCE,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub process_timeout: u64,
    /// Send all kernels to this program at once, as a line with a JSON list, and read one line with the list of its
    /// answers.
    #[arg(long, requires = "process")]
    pub process_batch: bool,
    /// The extractor, instead of the pipeline's.
    #[arg(long)]
    pub extractor: Option<String>,
    /// Take the selection in this file, as `ovolo extract --json` prints it for the e-graph of `ovolo dump --egraph`
    /// (extractor `choices`): JSON of the form {"choices": {"c0": "c0.0"}}, with the chosen node of each e-class.
    #[arg(long, value_name = "FILE.json", conflicts_with = "extractor")]
    pub choices: Option<PathBuf>,
    /// Choose by a program, which this command starts (extractor `process`). The program reads the e-graph as `ovolo
    /// dump --egraph` writes it, and writes the chosen node of each e-class in the form of --choices.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["extractor", "choices"])]
    pub extractor_process: Option<String>,
    /// The seconds that this program may take.
    #[arg(
        long, value_name = "SECONDS", requires = "extractor_process", default_value_t = choosing::ByProgram::PATIENCE,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub extractor_timeout: u64,
    /// Threads, including the calling one. Default: the processors that this process may use.
    #[arg(long)]
    pub threads: Option<usize>,
    /// The most bytes of memory that the plan may take, for its arena and the constants that it keeps (weights, as
    /// its kernels want them): 4194304, 4MiB, 4.2MB. This is the host's memory, unless a device is named; may be
    /// given once for each device.
    #[arg(long, value_name = "[DEVICE=]BYTES", value_parser = amount::of_device)]
    pub memory_limit: Vec<(Device, usize)>,
    /// Keep the model's inputs and outputs in the memory of a device (`cuda:0`), so that a run copies nothing to it or
    /// from it. `bench` then times runs without these copies.
    #[arg(long, value_name = "DEVICE")]
    pub resident: Option<Device>,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long)]
    pub seeded_weights: bool,
}

impl Settings {
    /// Compiles a model as the command line does without further arguments: with the pipeline `cpu`, and as many threads
    /// as there are processors.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            weights: None,
            dims: Vec::new(),
            pipeline: Self::PIPELINE.to_owned(),
            rules: Vec::new(),
            add: Vec::new(),
            cost: None,
            costs: Vec::new(),
            learned: None,
            process: None,
            process_timeout: Invocation::PATIENCE,
            process_batch: false,
            extractor: None,
            choices: None,
            extractor_process: None,
            extractor_timeout: choosing::ByProgram::PATIENCE,
            threads: None,
            memory_limit: Vec::new(),
            resident: None,
            seeded_weights: false,
        }
    }

    /// The pipeline of the command line, unless another one is named.
    pub const PIPELINE: &str = "cpu";
}

/// Tells the library what the environment says: the folder of the cache, and the instruction set for which plans are
/// made.
///
/// # Errors
/// `OVOLO_ISA` is no instruction set of a backend of the registry.
pub fn read_environment(registry: &Registry) -> Result<(), Refusal> {
    Ok(environment::tell(registry)?)
}

/// Prints the error of a command, if there is one, and returns the exit code.
fn finished(outcome: Outcome) -> ExitCode {
    match outcome.and_then(written) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => failed(&message, 1),
    }
}

/// Passes a result on, unless something could not be written to standard output.
fn written<T>(result: T) -> Result<T, String> {
    LOST.get().map_or(Ok(result), |why| Err(why.clone()))
}

/// Prints an error and returns an exit code.
fn failed(message: &str, code: u8) -> ExitCode {
    // Diagnostics contain the word `error` themselves.
    let message = message.trim_end();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    // If standard error cannot be written either, only the exit code remains.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(code)
}

/// The first error of standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints what a command was asked for to standard output. A closed pipe is not an error; any other failure makes the
/// command fail at its end.
pub fn print(text: &str) {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = LOST.set(format!("standard output: {error}"));
        }
        _ => {}
    }
}

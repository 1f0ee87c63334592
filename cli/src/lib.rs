//! The command line. Only this crate prints, exits, and reads the environment.
//!
//! Other programs get the same answers by a [`Job`], which prints nothing but notes; [`on_note`] takes those as well.

mod ablate;
mod adding;
mod amount;
mod bench;
mod cache;
mod caching;
mod check;
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
mod kernels;
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
mod test;
mod tune;
mod value;

pub use job::{Job, Runnable};
pub use note::on_note;
pub use refusal::Refusal;
pub use rules::{Asked, verify_rules};
pub use test::shown;

use clap::{Args, Parser, Subcommand};
use ovolo::cache::Builds;
use ovolo::registry::Registry;
use ovolo::subprocess::{self, Invocation};
use ovolo::tensor::Device;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

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

/// Compiles and runs neural networks, by rewrite rules in text files.
#[derive(Parser)]
#[command(name = "ovolo", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a model on inputs from files.
    Run(run::Run),
    /// Compile a model and print the report of every pass.
    Compile(compile::Compile),
    /// Time a compiled model.
    Bench(bench::Bench),
    /// Time the candidate kernels of a model's plan, keep the times, and choose the fastest plan.
    Tune(tune::Tune),
    /// Show each step of the plan: op, backend, implementation, layout, cost, and the rules that led to it.
    Explain(explain::Explain),
    /// List what a model needs, and what of it ovolo does not have, before any run.
    Check(check::Check),
    /// Find where a compiled model departs from ONNX Runtime, or from the reference evaluation, and which rule or
    /// kernel is at fault.
    Compare(compare::Compare),
    /// Write the features of each candidate kernel of a model's plan, as cost models see them.
    Features(features::Features),
    /// Merge tables of times, such as those of shards, or compare those of several machines.
    MergeTimes(merge::MergeTimes),
    /// Fit the cost model `learned` to the timed kernels of some models.
    Fit(fit::Fit),
    /// Compare cost models and extractors on models: tables and a page of plots, from one file.
    Experiment(experiment::Experiment),
    /// Compile the kernels of a model's plan for a device, and report the result.
    Kernels(kernels::Kernels),
    /// Print a stage of the compilation.
    Dump(compile::Dump),
    /// Compare two stages, the graphs of two pipelines, or a stage with one that was saved. The exit code is 1 if they
    /// differ, and 2 if they could not be compared.
    Diff(compile::Diff),
    /// Find the smallest graph for which a command still says the same, such as an error.
    Reduce(reduce::Reduce),
    /// Extract the cheapest graph from an e-graph in a file.
    Extract(extract::Extract),
    /// Pack buffers from CSV tables: an offset for each, with the fewest bytes for all.
    Pack(pack::Pack),
    /// Show what each rule, file of rules, kernel, extractor, order or memory planner is worth on models.
    Ablate(ablate::Ablate),
    /// Test, check and query rules.
    #[command(subcommand)]
    Rules(rules::Rules),
    /// Show the shipped price lists, and what a price can depend on.
    #[command(subcommand)]
    Costs(costs::Costs),
    /// Compare what passes do to models with snapshots.
    Test(test::Test),
    /// Write rules, examples, pipelines, experiments and price lists in one form.
    Fmt(fmt::Fmt),
    /// List, query and clean the cache of plans.
    #[command(subcommand)]
    Cache(cache::Cache),
    /// Write a model's plan and packed weights to one file.
    SaveCache(save::Save),
    /// Add a plan and its weights from a file of `save-cache` to the cache.
    LoadCache(save::Load),
    /// Show what this machine has: processor, instruction sets, backends.
    Doctor(doctor::Doctor),
}

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
    /// The extractor, instead of the pipeline's.
    #[arg(long)]
    pub extractor: Option<String>,
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
            extractor: None,
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
/// `OVOLO_ISA` is no instruction set.
pub fn read_environment() -> Result<(), Refusal> {
    Ok(environment::tell()?)
}

/// Runs the command of this process with a registry. Prints errors and returns the exit code.
pub fn main(registry: Registry) -> ExitCode {
    run(Arguments::parse(), &Arc::new(registry))
}

fn run(arguments: Arguments, registry: &Arc<Registry>) -> ExitCode {
    fault::say();
    subprocess::on_wait(|text| eprintln!("note: {text}"));
    if let Err(why) = environment::tell() {
        eprintln!("error: {why}");
        return ExitCode::FAILURE;
    }
    let outcome = match arguments.command {
        Command::Run(command) => command.run(registry),
        Command::Compile(command) => command.run(registry),
        Command::Bench(command) => command.run(registry),
        Command::Tune(command) => command.run(registry),
        Command::Kernels(command) => command.run(registry),
        Command::Explain(command) => command.run(registry),
        Command::Check(command) => command.run(registry),
        Command::Compare(command) => command.run(registry),
        Command::Features(command) => command.run(registry),
        Command::MergeTimes(command) => command.run(registry),
        Command::Fit(command) => command.run(registry),
        Command::Experiment(command) => command.run(registry),
        Command::Dump(command) => command.run(registry),
        Command::Diff(command) => {
            // As the command `diff` has it: 1 for a difference, 2 for trouble.
            return match command.run(registry).and_then(written) {
                Ok(same) => ExitCode::from(u8::from(!same)),
                Err(message) => failed(&message, 2),
            };
        }
        Command::Reduce(command) => command.run(registry),
        Command::Extract(command) => command.run(registry),
        Command::Pack(command) => command.run(),
        Command::Ablate(command) => command.run(registry),
        Command::Rules(command) => command.run(registry),
        Command::Costs(command) => command.run(registry),
        Command::Cache(command) => command.run(registry),
        Command::SaveCache(command) => command.run(registry),
        Command::LoadCache(command) => command.run(registry),
        Command::Test(command) => command.run(registry),
        Command::Fmt(command) => command.run(),
        Command::Doctor(command) => command.run(registry),
    };
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

/// Prints to standard output. A closed pipe is not an error; any other failure makes the command fail at its
/// end.
fn print(text: &str) {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = LOST.set(format!("standard output: {error}"));
        }
        _ => {}
    }
}

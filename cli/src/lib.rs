//! The command line: the only code that prints, exits, and reads the environment.

mod amount;
mod bench;
mod cache;
mod caching;
mod compile;
mod costs;
mod doctor;
mod experiment;
mod explain;
mod extract;
mod fault;
mod features;
mod fit;
mod kernels;
mod load;
mod merge;
mod pack;
mod page;
mod progress;
mod rules;
mod run;
mod save;
mod tune;

use clap::{Args, Parser, Subcommand};
use ovolo::backend::features::Isa;
use ovolo::cache::Builds;
use ovolo::registry::Registry;
use ovolo::subprocess::{self, Invocation};
use ovolo::tensor::Device;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// The builds of the crates that a registry does not name: what one of them has cached holds for no other.
pub const BUILDS: Builds = &[
    ("ovolo-cli", BUILD),
    ("ovolo-lab", ovolo_lab::BUILD),
    ("ovolo-proof", ovolo_proof::BUILD),
    ("ovolo-tune", ovolo_tune::BUILD),
];

/// What a command ends with: nothing, or a message for the user.
type Outcome = Result<(), String>;

/// Compiles and runs neural networks, by rewrite rules in text files.
#[derive(Parser)]
#[command(name = "ovolo", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a model on inputs from .npy files.
    Run(run::Run),
    /// Compile a model and print the report of every pass.
    Compile(compile::Compile),
    /// Time a compiled model.
    Bench(bench::Bench),
    /// Time the kernels among which a model's plan is chosen, keep the times, and pick the fastest plan.
    Tune(tune::Tune),
    /// Show each step of the plan: op, backend, implementation, layout, cost, and the rules that led to it.
    Explain(explain::Explain),
    /// Write what cost models know of each kernel among which a model's plan is chosen.
    Features(features::Features),
    /// Take tables of times together, such as those of shards; or compare those of several machines.
    MergeTimes(merge::MergeTimes),
    /// Fit the cost model `learned` to the kernels of some models that were timed.
    Fit(fit::Fit),
    /// Compare cost models and extractors on models: tables and a page of plots, from one file.
    Experiment(experiment::Experiment),
    /// Compile the kernels that a model's plan for a device takes, and say what came of it.
    Kernels(kernels::Kernels),
    /// Print a stage of the compilation.
    Dump(compile::Dump),
    /// Compare two stages, or the programs of two pipelines.
    Diff(compile::Diff),
    /// Extract the cheapest program from an e-graph in a file.
    Extract(extract::Extract),
    /// Pack buffers from CSV tables: an offset for each, and the fewest bytes for all.
    Pack(pack::Pack),
    /// Test, check and question rules.
    #[command(subcommand)]
    Rules(rules::Rules),
    /// Show the price lists that ship, and what a price can depend on.
    #[command(subcommand)]
    Costs(costs::Costs),
    /// Look at, question and clean the cache of plans.
    #[command(subcommand)]
    Cache(cache::Cache),
    /// Write a model's plan and packed weights to one file.
    SaveCache(save::Save),
    /// Take a plan and its weights from a file of `save-cache` into the cache.
    LoadCache(save::Load),
    /// Say what this machine has: processor, instruction sets, backends.
    Doctor(doctor::Doctor),
}

/// How a model is compiled.
#[derive(Args, Clone)]
struct Settings {
    /// The model: an ONNX file, or a graph in text form, as `dump` prints it (.ovolo, .txt).
    model: PathBuf,
    /// The model that a graph in text form was printed from: it has the constants that stand in the text as
    /// hashes.
    #[arg(long, value_name = "MODEL")]
    weights: Option<PathBuf>,
    /// Binds a symbolic dimension.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// The pipeline: a file, or the name of a shipped one.
    #[arg(long, env = "OVOLO_PIPELINE", default_value = "cpu")]
    pipeline: String,
    /// Adds the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// The cost model, in place of the pipeline's.
    #[arg(long)]
    cost: Option<String>,
    /// Lay the price list in this file over the shipped one: the cost model `prices`. May be given more than once.
    #[arg(long, value_name = "FILE.ron", conflicts_with = "cost")]
    costs: Vec<PathBuf>,
    /// Price by the model in this file, which `ovolo fit` has written: the cost model `learned`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cost", "costs"])]
    learned: Option<PathBuf>,
    /// Price by a program, which this command starts: the cost model `process`. It is given the features of
    /// each kernel as a line of JSON, and answers with a line {"seconds": 1.2e-5}.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["cost", "costs", "learned"])]
    process: Option<String>,
    /// How many seconds that program may take for an answer.
    #[arg(
        long, value_name = "SECONDS", requires = "process", default_value_t = Invocation::PATIENCE,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    process_timeout: u64,
    /// The extractor, in place of the pipeline's.
    #[arg(long)]
    extractor: Option<String>,
    /// Threads, the calling one included. Default: the processors this process may use.
    #[arg(long)]
    threads: Option<usize>,
    /// The most bytes of memory that the plan may take, for its arena and the constants that it keeps (weights, as
    /// its kernels want them): 4194304, 4MiB, 4.2MB. The host's, unless a device is named; may be given once for
    /// each.
    #[arg(long, value_name = "[DEVICE=]BYTES", value_parser = amount::of_device)]
    memory_limit: Vec<(Device, usize)>,
    /// Fill initializers that carry no data but say `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
}

/// What ovolo comes with: its own ops, and the backends `native`, `onednn`, `cuda`, `cublaslt` and `cudnn`.
///
/// # Panics
/// Never: the names of the backends and of their ops differ.
pub fn standard() -> Registry {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry)
        .and_then(|()| ovolo_onednn::register(&mut registry))
        .and_then(|()| ovolo_cuda::register(&mut registry))
        .expect("the names of the backends and of their ops differ");
    registry
}

/// Runs the command that this process was started with, on what a registry has; prints what went wrong and gives the
/// exit code.
pub fn main(registry: Registry) -> ExitCode {
    run(Arguments::parse(), &Arc::new(registry))
}

fn run(arguments: Arguments, registry: &Arc<Registry>) -> ExitCode {
    fault::say();
    subprocess::on_wait(|text| eprintln!("note: {text}"));
    if let Err(why) = Isa::wanted() {
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
        Command::Features(command) => command.run(registry),
        Command::MergeTimes(command) => command.run(registry),
        Command::Fit(command) => command.run(registry),
        Command::Experiment(command) => command.run(registry),
        Command::Dump(command) => command.run(registry),
        Command::Diff(command) => command.run(registry),
        Command::Extract(command) => command.run(registry),
        Command::Pack(command) => command.run(),
        Command::Rules(command) => command.run(registry),
        Command::Costs(command) => command.run(registry),
        Command::Cache(command) => command.run(registry),
        Command::SaveCache(command) => command.run(registry),
        Command::LoadCache(command) => command.run(registry),
        Command::Doctor(command) => command.run(registry),
    };
    let outcome = outcome.and_then(|()| LOST.get().map_or(Ok(()), |why| Err(why.clone())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Diagnostics say it themselves.
            let message = message.trim_end();
            let message = message.strip_prefix("error: ").unwrap_or(message);
            // Where nobody can be told, the exit code is all there is.
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::from(1)
        }
    }
}

/// What went wrong first with standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints to standard output; a reader that went away is no error. What cannot be written fails the command
/// at its end.
fn print(text: &str) {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = LOST.set(format!("standard output: {error}"));
        }
        _ => {}
    }
}

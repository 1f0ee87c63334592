//! The commands of this crate.

use super::{Outcome, failed, finished, written};
use super::{
    ablate, bench, cache, check, compare, compile, costs, doctor, experiment, explain, extract, features,
    fit, fmt, merge, pack, reduce, rules, run, save, shell, test, tune,
};
use clap::{Parser, Subcommand};
use ovolo::registry::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// Compiles and runs neural networks, by rewrite rules in text files.
#[derive(Parser)]
#[command(name = "ovolo", version, propagate_version = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
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
    /// Print the completions of all commands and options for a shell.
    Completions(shell::Completions),
    /// Write a manual page for each command.
    ManPages(shell::Pages),
}

impl Command {
    /// Runs the command, prints its error, and returns the exit code. `definition` has all commands of the program.
    pub(super) fn run(self, registry: &Arc<Registry>, definition: clap::Command) -> ExitCode {
        let outcome: Outcome = match self {
            Self::Diff(command) => {
                // As the command `diff` has it: 1 for a difference, 2 for trouble.
                return match command.run(registry).and_then(written) {
                    Ok(same) => ExitCode::from(u8::from(!same)),
                    Err(message) => failed(&message, 2),
                };
            }
            Self::Run(command) => command.run(registry),
            Self::Compile(command) => command.run(registry),
            Self::Bench(command) => command.run(registry),
            Self::Tune(command) => command.run(registry),
            Self::Explain(command) => command.run(registry),
            Self::Check(command) => command.run(registry),
            Self::Compare(command) => command.run(registry),
            Self::Features(command) => command.run(registry),
            Self::MergeTimes(command) => command.run(registry),
            Self::Fit(command) => command.run(registry),
            Self::Experiment(command) => command.run(registry),
            Self::Dump(command) => command.run(registry),
            Self::Reduce(command) => command.run(registry),
            Self::Extract(command) => command.run(registry),
            Self::Pack(command) => command.run(),
            Self::Ablate(command) => command.run(registry),
            Self::Rules(command) => command.run(registry),
            Self::Costs(command) => command.run(registry),
            Self::Test(command) => command.run(registry),
            Self::Fmt(command) => command.run(),
            Self::Cache(command) => command.run(registry),
            Self::SaveCache(command) => command.run(registry),
            Self::LoadCache(command) => command.run(registry),
            Self::Doctor(command) => command.run(registry),
            Self::Completions(command) => command.run(definition),
            Self::ManPages(command) => command.run(definition),
        };
        finished(outcome)
    }
}

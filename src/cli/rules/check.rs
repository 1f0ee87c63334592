//! `ovolo rules check`.

use super::Source;
use crate::cli::load::{read, read_pipeline};
use crate::cli::{Outcome, print};
use clap::Args;
use ovolo::audit::check::{self, Finding};
use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::graph::text;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass::PassReport;
use ovolo::pass::pipeline::{PassSpec, SHIPPED};
use ovolo::rule::RuleSet;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct Check {
    #[command(flatten)]
    source: Source,
    /// Says which rules never fire on the models (.onnx, .ovolo) of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    on: Vec<PathBuf>,
    /// The pipelines that rules may be used by, beside the shipped ones: files or names.
    #[arg(long)]
    pipeline: Vec<String>,
    /// As JSON, a line for each finding.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Outcome {
        let set = self.source.load()?.set;
        let shipped =
            SHIPPED.iter().filter_map(|(name, _)| name.strip_prefix("passes/")?.strip_suffix(".ron"));
        let names: Vec<&str> = shipped.chain(self.pipeline.iter().map(String::as_str)).collect();
        let pipelines = names.iter().map(|name| read_pipeline(name)).collect::<Result<Vec<_>, _>>()?;
        let mut findings = check::rules(set.rules());
        findings.extend(check::pipelines(set.rules(), &pipelines));
        if !self.on.is_empty() {
            let (fired, models) = self.corpus(&set, &names)?;
            findings.extend(check::corpus(set.rules(), &fired, models));
        }
        let notes = findings.iter().filter(|finding| finding.kind.is_note()).count();
        let mut report = String::new();
        for finding in &findings {
            let _ = writeln!(report, "{}", if self.json { json(finding) } else { line(finding) });
        }
        if !self.json {
            let _ = writeln!(
                report,
                "{} rules, {} findings, {} notes",
                set.rules().len(),
                findings.len() - notes,
                notes
            );
        }
        print(&report);
        match findings.len() - notes {
            0 => Ok(()),
            1 => Err("1 finding".into()),
            many => Err(format!("{many} findings")),
        }
    }

    /// How often each rule changed the e-graph of some model, in any pipeline.
    fn corpus(&self, set: &RuleSet, pipelines: &[&str]) -> Result<(FxHashMap<String, usize>, usize), String> {
        let mut models = Vec::new();
        for directory in &self.on {
            let listed =
                std::fs::read_dir(directory).map_err(|e| format!("--on {}: {e}", directory.display()))?;
            models.extend(listed.filter_map(|entry| Some(entry.ok()?.path())));
        }
        models.retain(|path| path.extension().is_some_and(|kind| kind == "onnx" || kind == "ovolo"));
        models.sort();
        if models.is_empty() {
            return Err("--on: there is no .onnx and no .ovolo file".into());
        }
        let mut fired: FxHashMap<String, usize> = FxHashMap::default();
        for (at, model) in models.iter().enumerate() {
            eprint!("\r{}/{} {:60}", at + 1, models.len(), model.display());
            let graph = load(model)?;
            for name in pipelines {
                let mut pipeline = read_pipeline(name)?;
                // What is chosen does not matter here.
                for pass in &mut pipeline.passes {
                    if let PassSpec::Extract(settings) = pass {
                        settings.cost = "flops".into();
                        settings.extractor = "greedy-tree".into();
                    }
                }
                let options = Options {
                    rules: set.clone(),
                    pipeline,
                    threads: 1,
                    machine: Machine::NOMINAL,
                    measured: None,
                    keep_egraph_after: None,
                };
                let compilation = compile::compile(graph.clone(), &options)
                    .map_err(|error| format!("{} by `{name}`: {error}", model.display()))?;
                for stage in &compilation.stages {
                    if let Some(PassReport::Rewrite(phase)) = &stage.report {
                        for rule in &phase.growth {
                            *fired.entry(rule.rule.clone()).or_default() += rule.applied;
                        }
                    }
                }
            }
        }
        eprintln!();
        Ok((fired, models.len()))
    }
}

/// A model of a corpus. Weights that are left out are drawn: what is chosen does not hang on them.
pub(super) fn load(model: &Path) -> Result<ovolo::graph::Graph, String> {
    if model.extension().is_some_and(|kind| kind == "ovolo") {
        return text::parse(&read(model)?).map_err(|error| error.to_string());
    }
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    Ok(onnx::load(model, &options).map_err(|error| error.to_string())?.graph)
}

fn line(finding: &Finding) -> String {
    let rule = &finding.rule;
    let other = finding.other.as_ref().map(|other| format!(" (see {}:{})", other.file, other.line));
    format!(
        "{}{}: {} ({}:{}): {}{}",
        if finding.kind.is_note() { "note: " } else { "" },
        finding.kind.name(),
        rule.name,
        rule.file,
        rule.line,
        finding.message,
        other.unwrap_or_default()
    )
}

fn json(finding: &Finding) -> String {
    let place = |rule: &ovolo::rule::Rule| serde_json::json!({ "rule": rule.name, "file": rule.file, "line": rule.line });
    serde_json::json!({
        "kind": finding.kind.name(), "rule": place(&finding.rule),
        "other": finding.other.as_ref().map(|other| place(other)), "message": finding.message,
    })
    .to_string()
}

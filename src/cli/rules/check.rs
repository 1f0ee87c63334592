//! `ovolo rules check`.

use super::{Loaded, threads};
use crate::cli::load::read_pipeline;
use crate::cli::progress::Progress;
use crate::cli::{Outcome, Settings, print};
use clap::Args;
use ovolo::audit::check::{self, Finding, Place};
use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::error::{Diagnostic, Diagnostics, Source};
use ovolo::graph::Graph;
use ovolo::pass::PassReport;
use ovolo::pass::pipeline::{PassSpec, SHIPPED};
use ovolo::rule::{Rule, RuleSet};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[derive(Args)]
pub(in crate::cli) struct Check {
    #[command(flatten)]
    source: super::Source,
    /// Says which rules never fire on the models (.onnx, .ovolo) of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    on: Vec<PathBuf>,
    /// The pipelines that rules may be used by, beside the shipped ones: files or names.
    #[arg(long)]
    pipeline: Vec<String>,
    /// Show notes as well: what is only worth knowing, such as rules that are another one backwards.
    #[arg(long)]
    notes: bool,
    /// Binds a symbolic dimension of the models of `--on`.
    #[arg(long = "dim", value_name = "NAME=N", requires = "on")]
    dims: Vec<String>,
    /// Threads. The result does not depend on their number. Default: the processors there are.
    #[arg(long)]
    threads: Option<usize>,
    /// As JSON, a line for each finding and each note.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Outcome {
        let loaded = self.source.load()?;
        let set = &loaded.set;
        let shipped =
            SHIPPED.iter().filter_map(|(name, _)| name.strip_prefix("passes/")?.strip_suffix(".ron"));
        let names: Vec<&str> = shipped.chain(self.pipeline.iter().map(String::as_str)).collect();
        let pipelines = names.iter().map(|name| read_pipeline(name, None)).collect::<Result<Vec<_>, _>>()?;
        let mut findings = check::rules(set.rules());
        let progress = Mutex::new(Progress::new(set.rules().len()));
        let done = |rule: &Rule| progress.lock().unwrap_or_else(PoisonError::into_inner).step(&rule.name);
        findings.extend(check::types(set.rules(), threads(self.threads)?, &done));
        drop(progress);
        findings.extend(check::pipelines(set.rules(), &pipelines));
        if !self.on.is_empty() {
            let (fired, models) = self.corpus(set, &names)?;
            findings.extend(check::corpus(set.rules(), &fired, models));
        }
        let findings = check::arranged(findings, set.rules());
        if self.json {
            findings.iter().for_each(|finding| print(&format!("{}\n", json(finding, &loaded))));
        } else {
            print(&self.report(&findings, &loaded));
        }
        match findings.iter().filter(|finding| !finding.kind.is_note()).count() {
            0 => Ok(()),
            1 => Err("1 finding".into()),
            many => Err(format!("{many} findings")),
        }
    }

    /// Findings with their places, and then notes: a line each, or how many there are.
    fn report(&self, findings: &[Finding], loaded: &Loaded) -> String {
        let (notes, findings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.kind.is_note());
        let mut shown = Diagnostics::new();
        for (name, text) in &loaded.files {
            shown.add_source(Source::new(name.as_str(), text.as_str()));
        }
        for finding in &findings {
            let mut diagnostic = Diagnostic::new(format!("{}: {}", finding.kind.name(), finding.message));
            for place in &finding.places {
                if let Some(source) = loaded.files.iter().position(|(name, _)| *name == place.file) {
                    diagnostic = diagnostic.label(source, place.span, &place.text);
                }
            }
            shown.push(diagnostic.help(&finding.help).note(format!("in rule `{}`", finding.rule.name)));
        }
        let mut report = String::new();
        if !shown.is_empty() {
            let _ = writeln!(report, "{shown}\n");
        }
        for note in notes.iter().filter(|_| self.notes) {
            let other = note.other.as_ref().map(|other| format!(" (see {}:{})", other.file, other.line));
            let rule = &note.rule;
            let _ = writeln!(
                report,
                "note: {}: {} ({}:{}): {}: {}{}",
                note.kind.name(),
                rule.name,
                rule.file,
                rule.line,
                note.message,
                note.help,
                other.unwrap_or_default()
            );
        }
        let hidden = if self.notes || notes.is_empty() { "" } else { " (`--notes` shows them)" };
        let _ = writeln!(
            report,
            "{} rules, {} findings, {} notes{hidden}",
            loaded.set.rules().len(),
            findings.len(),
            notes.len()
        );
        report
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
        let mut progress = Progress::new(models.len());
        for model in &models {
            progress.step(&model.display().to_string());
            let graph = self.load(model)?;
            for name in pipelines {
                let mut pipeline = read_pipeline(name, None)?;
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
        Ok((fired, models.len()))
    }

    /// A model of a corpus. Weights that are left out are drawn: what is chosen does not hang on them.
    fn load(&self, model: &Path) -> Result<Graph, String> {
        let settings = Settings {
            model: model.to_owned(),
            dims: self.dims.clone(),
            pipeline: String::new(),
            rules: Vec::new(),
            cost: None,
            formula: None,
            process: None,
            extractor: None,
            memory_limit: None,
            threads: None,
            seeded_weights: true,
        };
        settings.graph()
    }
}

fn json(finding: &Finding, loaded: &Loaded) -> serde_json::Value {
    let rule = |rule: &Rule| serde_json::json!({ "rule": rule.name, "file": rule.file, "line": rule.line });
    let place = |place: &Place| {
        let (line, column) = loaded.line_column(&place.file, place.span.start);
        serde_json::json!({ "file": place.file, "line": line, "column": column, "text": place.text })
    };
    serde_json::json!({
        "kind": finding.kind.name(), "note": finding.kind.is_note(), "rule": rule(&finding.rule),
        "other": finding.other.as_ref().map(|other| rule(other)), "message": finding.message,
        "help": finding.help, "places": finding.places.iter().map(place).collect::<Vec<_>>(),
    })
}

//! `ovolo rules check`.

use super::{Loaded, threads};
use crate::load::{dims, read_pipeline};
use crate::progress::Progress;
use crate::{Outcome, Settings, amount, print};
use clap::Args;
use ovolo::compile::Options;
use ovolo::error::{Diagnostic, Diagnostics, Label, Source};
use ovolo::graph::{Graph, text};
use ovolo::onnx;
use ovolo::pass::AbsentRules;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::rule::{Rule, RuleSet};
use ovolo_proof::check::{self, Finding, Kind, Place};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    source: super::Source,
    /// Also report rules that never fire on a model (.onnx, .ovolo), or on those in a directory. May be given more than
    /// once.
    #[arg(long, value_name = "PATH")]
    on: Vec<PathBuf>,
    /// Further pipelines that may use the rules: files or names of shipped ones.
    #[arg(long)]
    pipeline: Vec<String>,
    /// Show notes as well: findings that need no change, such as rules for which no instance was found.
    #[arg(long)]
    notes: bool,
    /// Treat findings of this kind as notes. May be given more than once.
    #[arg(long, value_name = "KIND", value_parser = Kind::ALL.map(Kind::name))]
    allow: Vec<String>,
    /// Bind a symbolic dimension of the models of `--on`.
    #[arg(long = "dim", value_name = "NAME=N", requires = "on")]
    dims: Vec<String>,
    /// Add rules to a `Rewrite` of the pipelines that have it, such as `new.ron:fuse`. May be given more than once.
    #[arg(long, value_name = "RULES:PHASE")]
    add: Vec<String>,
    /// Threads. The result does not depend on their number. Default: the available processors.
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON, a line for each finding and each note.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let (loaded, mistakes) = self.source.load_right(registry)?;
        let set = &loaded.set;
        let shipped = registry.rule_set().map_err(|errors| errors.to_string())?;
        let beside = loaded.all.beside(&shipped);
        let names: Vec<&str> =
            registry.pipeline_names().chain(self.pipeline.iter().map(String::as_str)).collect();
        let adding = Settings { add: self.add.clone(), ..Settings::new("") };
        let read = |name: &&str| {
            let mut pipeline = read_pipeline(registry, name, None)?;
            // Pipelines that have not the phase stay as they are.
            let added = adding.add_rules(&mut pipeline);
            Ok::<_, String>((pipeline, added.err()))
        };
        let (pipelines, refused): (Vec<_>, Vec<_>) =
            names.iter().map(read).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        if let Some(why) = refused.iter().flatten().next().filter(|_| refused.iter().all(Option::is_some)) {
            return Err(why.clone());
        }
        let own = |rule: &Arc<Rule>| set.rules().iter().any(|own| Arc::ptr_eq(own, rule));
        let mut findings = check::rules(beside.rules(), registry.ops(), &shipped);
        findings.retain(|finding| match finding.kind {
            Kind::Undone => own(&finding.rule) || finding.other.as_ref().is_some_and(own),
            _ => own(&finding.rule),
        });
        findings.extend(check::names(set.rules(), &shipped));
        let progress = Mutex::new(Progress::new(set.rules().len()));
        let done = |rule: &Rule| progress.lock().unwrap_or_else(PoisonError::into_inner).step(&rule.name);
        findings.extend(check::types(set.rules(), threads(self.threads)?, &done));
        drop(progress);
        findings.extend(check::pipelines(set.rules(), &pipelines));
        // If a model cannot be compiled, the findings are still reported.
        let corpus = match self.on[..] {
            [] => Ok(()),
            _ => self.corpus(registry, &beside, &pipelines).and_then(|corpus| {
                // Rules that no pipeline has were not tried.
                let named = |rule: &&Arc<Rule>| {
                    pipelines.iter().flat_map(Pipeline::rewrites).any(|phase| phase.names(rule))
                };
                let tried: Vec<Arc<Rule>> = set.rules().iter().filter(named).cloned().collect();
                findings.extend(check::corpus(&tried, &corpus.fired, corpus.models));
                match &corpus.refused[..] {
                    [] => Ok(()),
                    refused => Err(refused.join("\n")),
                }
            }),
        };
        let findings = check::arranged(findings, beside.rules());
        let loaded = loaded.with(registry.rules()).with(registry.examples());
        if self.json {
            mistakes.iter().for_each(|one| print(&format!("{}\n", mistake(one, &mistakes, &loaded))));
            findings.iter().for_each(|one| print(&format!("{}\n", json(one, self.is_note(one), &loaded))));
        } else {
            print(&self.report(&mistakes, &findings, &loaded));
        }
        let count = findings.iter().filter(|finding| !self.is_note(finding)).count();
        let told: Vec<String> = [(mistakes.len(), "mistake"), (count, "finding")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| amount::of(count, what))
            .collect();
        match (corpus, told.is_empty()) {
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => Err(told.join(", ")),
            (Err(why), true) => Err(why),
            (Err(why), false) => Err(format!("{}, and then: {why}", told.join(", "))),
        }
    }

    fn is_note(&self, finding: &Finding) -> bool {
        // Files that are named alone are mostly being written, and no pipeline can name them yet.
        let new =
            finding.kind == Kind::NoPipeline && !self.source.files.is_empty() && self.pipeline.is_empty();
        new || finding.is_note() || self.allow.iter().any(|kind| kind == finding.kind.name())
    }

    /// Prints mistakes and findings with their places, and then the notes, one line each, or their number.
    fn report(&self, mistakes: &Diagnostics, findings: &[Finding], loaded: &Loaded) -> String {
        let (notes, findings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| self.is_note(finding));
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
        if !mistakes.is_empty() {
            let _ = writeln!(report, "{mistakes}\n");
        }
        if !shown.is_empty() {
            let _ = writeln!(report, "{shown}\n");
        }
        for note in notes.iter().filter(|_| self.notes) {
            let place = |rule: &Rule| loaded.place(rule, rule.places.name);
            let other = note.other.as_ref().map(|other| format!(" (see {})", place(other)));
            let rule = &note.rule;
            let _ = writeln!(
                report,
                "note: {}: {} ({}): {}: {}{}",
                note.kind.name(),
                rule.name,
                place(rule),
                note.message,
                note.help,
                other.unwrap_or_default()
            );
        }
        let hidden = if self.notes || notes.is_empty() { "" } else { " (`--notes` shows them)" };
        let _ = writeln!(
            report,
            "{}, {}{}, {}{hidden}",
            amount::of(loaded.set.rules().len(), "rule"),
            match mistakes.len() {
                0 => String::new(),
                count => format!("{}, ", amount::of(count, "mistake")),
            },
            amount::of(findings.len(), "finding"),
            amount::of(notes.len(), "note")
        );
        report
    }

    /// Counts how often each rule changed the e-graph of some model, in any pipeline.
    fn corpus(
        &self,
        registry: &Arc<Registry>,
        set: &RuleSet,
        pipelines: &[Pipeline],
    ) -> Result<Corpus, String> {
        let mut models = Vec::new();
        let is_model =
            |path: &PathBuf| path.extension().is_some_and(|kind| kind == "onnx" || kind == "ovolo");
        for path in &self.on {
            let why = |what: &dyn Display| format!("--on {}: {what}", path.display());
            let before = models.len();
            if path.is_file() {
                models.extend(Some(path.clone()).filter(is_model));
            } else {
                let listed = std::fs::read_dir(path).map_err(|error| why(&error))?;
                models.extend(listed.filter_map(|entry| Some(entry.ok()?.path())).filter(is_model));
            }
            if models.len() == before {
                return Err(why(&"it is no model (.onnx, .ovolo), and no directory that contains one"));
            }
        }
        models.sort();
        let mut corpus = Corpus::default();
        let mut progress = Progress::new(models.len());
        for model in &models {
            progress.step(&model.display().to_string());
            let count = |corpus: &mut Corpus| {
                let graph = self.load(registry, model, &mut corpus.dims)?;
                for pipeline in pipelines {
                    let options = Options::from_parts(registry, set.clone(), pipeline.clone());
                    // Rules of absent backends take part, so that a report of a rule that never fires does not depend
                    // on this machine.
                    let saturated = options
                        .saturate_by_phases(&graph, AbsentRules::TakePart, &mut |_| Ok(()))
                        .map_err(|error| format!("by `{}`: {error}", pipeline.name))?;
                    for rule in saturated.growth().iter().flat_map(|phase| &phase.saturation.growth) {
                        *corpus.fired.entry(rule.rule.clone()).or_default() += rule.applied;
                    }
                }
                Ok::<_, String>(())
            };
            match count(&mut corpus) {
                Ok(()) => corpus.models += 1,
                Err(why) => corpus.refused.push(format!("{}: {why}", model.display())),
            }
        }
        let dims = dims(&self.dims)?;
        match dims.keys().find(|name| !corpus.dims.contains(*name)) {
            Some(name) => Err(format!("--dim: no model of --on has a dimension `{name}` without a size")),
            None => Ok(corpus),
        }
    }

    /// Loads a model of a corpus, and binds the dimensions that it has. Missing weights are drawn, because the result does
    /// not depend on them.
    fn load(&self, registry: &Registry, model: &Path, known: &mut BTreeSet<String>) -> Result<Graph, String> {
        let symbols = match text::is_named(model) {
            true => BTreeSet::new(),
            false => onnx::symbols(model).map_err(|error| error.to_string())?,
        };
        let own = |dim: &&String| dim.split_once('=').is_some_and(|(name, _)| symbols.contains(name));
        let dims = self.dims.iter().filter(own).cloned().collect();
        known.extend(symbols.iter().cloned());
        let settings =
            Settings { dims, pipeline: String::new(), seeded_weights: true, ..Settings::new(model) };
        settings.graph(registry)
    }
}

/// What rules did on models.
#[derive(Default)]
struct Corpus {
    /// How often each rule changed the e-graph of some model.
    fired: FxHashMap<String, usize>,
    /// The number of models that could be compiled.
    models: usize,
    /// Why the others could not.
    refused: Vec<String>,
    /// The dimensions without a size that some model has.
    dims: BTreeSet<String>,
}

/// Converts a mistake to JSON.
fn mistake(one: &Diagnostic, all: &Diagnostics, loaded: &Loaded) -> serde_json::Value {
    let place = |label: &Label| {
        let file = all.sources().get(label.source).map_or("", |source| &source.name);
        let (line, column) = loaded.line_column(file, label.span.start);
        serde_json::json!({ "file": file, "line": line, "column": column, "text": label.text })
    };
    serde_json::json!({
        "kind": "mistake", "note": false, "message": one.message, "notes": one.notes,
        "places": one.labels.iter().map(place).collect::<Vec<_>>(),
    })
}

fn json(finding: &Finding, note: bool, loaded: &Loaded) -> serde_json::Value {
    let rule = |rule: &Rule| serde_json::json!({ "rule": rule.name, "file": rule.file, "line": rule.line });
    let place = |place: &Place| {
        let (line, column) = loaded.line_column(&place.file, place.span.start);
        serde_json::json!({ "file": place.file, "line": line, "column": column, "text": place.text })
    };
    serde_json::json!({
        "kind": finding.kind.name(), "note": note, "rule": rule(&finding.rule),
        "other": finding.other.as_ref().map(|other| rule(other)), "message": finding.message,
        "help": finding.help, "places": finding.places.iter().map(place).collect::<Vec<_>>(),
    })
}

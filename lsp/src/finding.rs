//! The findings of `ovolo rules check` about open files of rules: rules that can be read, and are probably wrong.
//!
//! They take longer than mistakes, since they draw instances of each rule, so a thread of their own looks for them.

use crate::message::Weight;
use lsp_types::DiagnosticSeverity;
use ovolo::Pipeline;
use ovolo::error::{Diagnostic, Diagnostics, Source};
use ovolo::pass::Scope;
use ovolo::registry::Registry;
use ovolo::rule::{Rule, RuleSet};
use ovolo::setting::Folder;
use ovolo_proof::check::{self, Finding, Kind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that findings are looked for in.
pub struct Job {
    /// The folder of the rules.
    pub folder: PathBuf,
    /// The versions of its open files, by which an answer about older texts is known.
    pub versions: Vec<(PathBuf, Option<i32>)>,
    /// The names and texts of all rules and examples of the folder.
    pub files: Vec<(String, String)>,
    /// The names of those files about which findings are wanted.
    pub open: Vec<String>,
    /// The paths and texts of the pipelines that may use the rules, besides those of the registry.
    pub pipelines: Vec<(PathBuf, String)>,
    /// The rules that the registry ships.
    pub shipped: Arc<RuleSet>,
}

/// The findings of a job.
pub struct Findings {
    /// The folder of the rules.
    pub folder: PathBuf,
    /// The versions of its open files.
    pub versions: Vec<(PathBuf, Option<i32>)>,
    /// The findings.
    pub found: Diagnostics,
    /// How serious each of them is.
    pub weights: Vec<Weight>,
}

/// Looks for findings.
pub fn look(registry: &Registry, job: Job) -> Findings {
    let files: Vec<(&str, &str)> =
        job.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (set, _) = RuleSet::read_right(registry.vocabulary(), &files);
    let wanted = |rule: &Rule| job.open.contains(&rule.file);
    let own: Vec<Arc<Rule>> = set.rules().iter().filter(|rule| wanted(rule)).cloned().collect();
    let beside = set.beside(&job.shipped);
    let mut findings = check::rules(beside.rules(), registry.ops(), &job.shipped);
    let is_own = |rule: &Arc<Rule>| own.iter().any(|own| Arc::ptr_eq(own, rule));
    findings.retain(|finding| is_own(&finding.rule));
    findings.extend(check::names(set.rules(), &job.shipped).into_iter().filter(|one| is_own(&one.rule)));
    findings.extend(check::types(&own, 1, &|_| {}));
    findings.extend(check::pipelines(&own, &pipelines(registry, &job.pipelines)));
    let findings = check::arranged(findings, beside.rules());
    let mut found = Diagnostics::new();
    for (name, text) in &job.files {
        found.add_source(Source::new(name.as_str(), text.as_str()));
    }
    for (name, text) in registry.rules().iter().chain(registry.examples().iter()) {
        found.add_source(Source::new(name, &**text));
    }
    findings.iter().for_each(|finding| found.push(diagnostic(finding, &found)));
    let weights = findings.iter().map(weight).collect();
    Findings { folder: job.folder, versions: job.versions, found, weights }
}

/// Returns the pipelines of the registry, and those others that can be read.
fn pipelines(registry: &Registry, others: &[(PathBuf, String)]) -> Vec<Pipeline> {
    let shipped = registry.pipelines().iter().map(|(name, text)| (Path::new(name), &**text));
    let others = others.iter().map(|(path, text)| (path.as_path(), text.as_str()));
    let read = |(path, text): (&Path, &str)| {
        let folder = Folder { path: path.parent(), read: &|path: &Path| std::fs::read_to_string(path) };
        let scope = Scope { rules: None, folder, ..registry.scope() };
        Pipeline::read(&scope, &path.display().to_string(), text).ok()
    };
    shipped.chain(others).filter_map(read).collect()
}

fn weight(finding: &Finding) -> Weight {
    let severity = match finding.kind {
        _ if finding.is_note() => DiagnosticSeverity::INFORMATION,
        Kind::Mistyped => DiagnosticSeverity::ERROR,
        _ => DiagnosticSeverity::WARNING,
    };
    Weight { severity, code: Some(finding.kind.name()) }
}

/// Returns a finding as a message with the places of those files that are known.
fn diagnostic(finding: &Finding, known: &Diagnostics) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(&finding.message);
    for place in &finding.places {
        if let Some(source) = known.sources().iter().position(|source| *source.name == *place.file) {
            diagnostic = diagnostic.label(source, place.span, &place.text);
        }
    }
    diagnostic.help(&finding.help).note(format!("in rule `{}`", finding.rule.name))
}

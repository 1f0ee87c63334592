//! Rules that the user brings: those of `--add` join a phase of the pipeline, and a note tells of rules that no phase has.

use super::Settings;
use super::files::{read, rule_files, same_file};
use super::note::say;
use ovolo::pass::Rewrite;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::ron::Spanned;
use ovolo::rule::{Rule, RuleSet, Template};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Rules that `--add` gives to a phase.
pub(super) struct Added<'a> {
    /// A rule or a file of rules, as pipelines name them.
    pub(super) rules: String,
    pub(super) phase: &'a str,
    /// The file, if that is what the user named.
    pub(super) file: Option<PathBuf>,
}

impl<'a> Added<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        // A name of rules may contain a colon (`half:bf16`), so the phase is what follows the last one.
        let parts = text.rsplit_once(':').filter(|(rules, phase)| !rules.is_empty() && !phase.is_empty());
        let (rules, phase) = parts.ok_or_else(|| {
            format!("--add needs RULES:PHASE, such as `my-rules.ron:fuse` or `my-rule:lower`, not `{text}`")
        })?;
        let path = Path::new(rules);
        if path.extension().is_none_or(|ending| ending != "ron") {
            return Ok(Self { rules: rules.to_owned(), phase, file: None });
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { rules: stem, phase, file: Some(path.to_owned()) })
    }
}

impl Settings {
    /// Returns the files of rules that the user names: the names and texts of those in `--rules` and `--add`.
    pub(super) fn own_rules(&self) -> Result<Vec<(String, String)>, String> {
        let mut files = Vec::new();
        for directory in &self.rules {
            files.extend(rule_files(directory)?);
        }
        for added in &self.add {
            let Some(path) = Added::read(added)?.file else { continue };
            let name = path.display().to_string();
            let known = |(file, _): &(String, String)| same_file(Path::new(file), &path);
            if !files.iter().any(known) {
                files.push((name, read(&path).map_err(|why| format!("--add {added}: {why}"))?));
            }
        }
        Ok(files)
    }

    /// Gives the rules of `--add` to the phases of a pipeline.
    pub(super) fn add_rules(&self, pipeline: &mut Pipeline) -> Result<(), String> {
        for text in &self.add {
            let Added { rules, phase, .. } = Added::read(text)?;
            let phases: Vec<String> =
                pipeline.rewrites().map(|rewrite| format!("`{}`", rewrite.name)).collect();
            let rewrite = pipeline.passes_mut::<Rewrite>().find(|rewrite| rewrite.name == phase);
            let rewrite = rewrite.ok_or_else(|| {
                let known = match &phases[..] {
                    [] => "it has none".to_owned(),
                    names => format!("they are {}", names.join(", ")),
                };
                format!("--add {text}: no `Rewrite` of the pipeline is called `{phase}`; {known}")
            })?;
            if rewrite.rules.iter().all(|known| known.value != rules) {
                rewrite.rules.push(Spanned { value: rules, span: Default::default() });
            }
        }
        Ok(())
    }

    /// Returns whether each name of `--add` is that of a rule or a file of rules. A wrong one is reported where all rules
    /// are read.
    pub(super) fn adds_what_is_known(&self, registry: &Registry, own: &[(String, String)]) -> bool {
        let files: Vec<(&str, &str)> =
            own.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (rules, _) = RuleSet::read_right(registry.vocabulary(), &files);
        self.add.iter().filter_map(|text| Added::read(text).ok()).all(|added| {
            let shipped = |(name, text): (&str, &_)| {
                let text: &str = text;
                Path::new(name).file_stem().is_some_and(|stem| *stem == *added.rules)
                    || text.contains(&format!("name: \"{}\"", added.rules))
            };
            added.file.is_some()
                || rules.rules().iter().any(|rule| rule.is_called(&added.rules))
                || registry.rules().iter().any(|(name, text)| shipped((name, &**text)))
        })
    }
}

/// Tells of rules of the user's files that no phase of the pipeline has, or that assume more than the pipeline, once for each
/// file and pipeline.
pub(super) fn tell_of_idle_rules(registry: &Registry, own: &[(String, String)], pipeline: &Pipeline) {
    for (file, text) in own {
        // Mistakes in the file are reported where all rules are read.
        let (rules, _) = RuleSet::read_right(registry.vocabulary(), &[(file, text)]);
        let has = |rule: &&Arc<Rule>| pipeline.rewrites().any(|rewrite| rewrite.names(rule));
        let unassumed: Vec<&Arc<Rule>> =
            rules.rules().iter().filter(|rule| has(rule) && !rule.fits(&pipeline.assume)).collect();
        if let Some(first) = unassumed.first() {
            let names =
                unassumed.iter().map(|rule| format!("`{}`", rule.name)).collect::<Vec<_>>().join(", ");
            tell(format!(
                "note: pipeline `{}` leaves out {names} of {file}, {}",
                pipeline.name,
                too_bold(first)
            ));
        }
        let idle: Vec<&Arc<Rule>> = rules.rules().iter().filter(|rule| !has(rule)).collect();
        let Some(first) = idle.first() else { continue };
        let what = match idle.len() == rules.rules().len() {
            true => "the rules".to_owned(),
            false => idle.iter().map(|rule| format!("`{}`", rule.name)).collect::<Vec<_>>().join(", "),
        };
        // Rules that lead to kernels belong to the last phase, and others to the first, where more rules follow them.
        let lowers = first.to.iter().any(lowers);
        let mut phases = pipeline.rewrites().map(|rewrite| rewrite.name.as_str());
        let phase = if lowers { phases.last() } else { phases.next() }.unwrap_or("PHASE");
        tell(format!(
            "note: no phase of pipeline `{}` has {what} of {file}, so they do nothing: add them with `--add {}:{phase}`, or \
             name them in a pipeline of your own",
            pipeline.name,
            first.stem()
        ));
    }
}

/// Returns whether a right side has a kernel of a backend.
fn lowers(template: &Template) -> bool {
    match template {
        Template::Op { op, children, .. } => op.is_lowered() || children.iter().any(lowers),
        Template::Each(_, Some((_, inner))) => lowers(inner),
        _ => false,
    }
}

/// Says why a pipeline leaves out a rule that one of its phases names: the rule assumes more than the pipeline.
pub(super) fn too_bold(rule: &Rule) -> String {
    let all: Vec<String> = rule.assumes.iter().map(|one| format!("\"{one}\"")).collect();
    let all = all.join(", ");
    format!("because it does not assume {all}; write `assume: [{all}]` into the pipeline if it may")
}

/// Prints a note, once.
fn tell(note: String) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(note.clone()) {
        say!("{note}");
    }
}

//! `ovolo rules test`.

use super::{Loaded, Source};
use crate::cli::{Outcome, print};
use clap::Args;
use ovolo::audit::example::{self, Verdict};
use ovolo::error::Span;
use ovolo::rule::{Example, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

#[derive(Args)]
pub(in crate::cli) struct Test {
    #[command(flatten)]
    source: Source,
    /// Write what happens as what is expected, in the files.
    #[arg(long)]
    bless: bool,
    /// As JSON, a line for each rule.
    #[arg(long)]
    json: bool,
}

impl Test {
    pub(super) fn run(&self) -> Outcome {
        let loaded = self.source.load()?;
        if self.bless {
            return self.bless(&loaded);
        }
        let mut text = String::new();
        let (mut wrong, mut examples, mut blessable) = (0, 0, 0);
        // The shipped rules are part of the program.
        let files = !(self.source.files.is_empty() && self.source.rules.is_empty());
        for rule in loaded.set.rules() {
            let verdicts = example::run(rule);
            let lacks = example::lacks(rule);
            examples += verdicts.len();
            wrong += verdicts.iter().filter(|verdict| verdict.wrong.is_some()).count();
            wrong += usize::from(lacks.is_some());
            let known = |verdict: &&Verdict| verdict.wrong.as_ref().is_some_and(|one| one.actual.is_some());
            blessable += if files { verdicts.iter().filter(known).count() } else { 0 };
            if self.json {
                let failures: Vec<_> = verdicts
                    .iter()
                    .filter_map(|v| {
                        let why = &v.wrong.as_ref()?.message;
                        let span = rule.examples[v.index].place().graph;
                        let (line, column) = loaded.line_column(&rule.file, span.start);
                        Some(serde_json::json!({
                            "example": v.index, "why": why, "line": line, "column": column,
                        }))
                    })
                    .collect();
                let value = serde_json::json!({
                    "rule": rule.name, "file": rule.file, "line": rule.line,
                    "examples": verdicts.len(), "wrong": failures, "lacks": lacks,
                });
                let _ = writeln!(text, "{value}");
                continue;
            }
            if let Some(lacks) = lacks {
                let place = loaded.place(rule, rule.places.name);
                let _ = writeln!(text, "{} ({place}): {lacks}", rule.name);
            }
            for verdict in &verdicts {
                let Some(why) = &verdict.wrong else { continue };
                let place = loaded.place(rule, rule.examples[verdict.index].place().graph);
                let _ = writeln!(text, "{} ({place}): {}", rule.name, why.message);
            }
        }
        let rules = loaded.set.rules().len();
        if !self.json {
            let _ = writeln!(text, "{rules} rules, {examples} examples, {wrong} wrong");
        }
        print(&text);
        match wrong {
            0 => Ok(()),
            // What is missing, or does not read, nothing can be written for.
            _ if blessable == 0 => {
                Err(format!("{wrong} examples are wrong or missing: mend the rule or write the example"))
            }
            _ => Err(format!(
                "{wrong} examples are wrong or missing; `--bless` writes what happens into the files{}",
                if blessable < wrong { format!(" for {blessable} of them") } else { String::new() }
            )),
        }
    }

    /// Writes what is right over what is expected, file by file.
    fn bless(&self, loaded: &Loaded) -> Outcome {
        if self.source.files.is_empty() && self.source.rules.is_empty() {
            return Err("the shipped rules are part of the program: name their files to bless them".into());
        }
        let mut report = String::new();
        let (mut blessed, mut wrong, mut examples) = (0, 0, 0);
        for (file, text) in &loaded.files {
            let mut edits: BTreeMap<usize, (Span, String)> = BTreeMap::new();
            let mut clashes: Vec<(Span, String)> = Vec::new();
            let before = wrong;
            for rule in loaded.set.rules().iter().filter(|rule| rule.file == *file) {
                if let Some(lacks) = example::lacks(rule) {
                    wrong += 1;
                    let place = loaded.place(rule, rule.places.name);
                    let _ = writeln!(report, "{} ({place}): {lacks}", rule.name);
                }
                for verdict in example::run(rule) {
                    examples += 1;
                    if let Some(why) = verdict.wrong.as_ref().filter(|wrong| wrong.actual.is_none()) {
                        wrong += 1;
                        let place = loaded.place(rule, rule.examples[verdict.index].place().graph);
                        let _ = writeln!(report, "{} ({place}): {}", rule.name, why.message);
                    }
                    if let Err(clash) = edit(loaded, rule, &verdict, &mut edits) {
                        clashes.push(clash);
                    }
                }
            }
            clashes.dedup_by_key(|(span, _)| *span);
            for (span, clash) in clashes {
                wrong += 1;
                edits.remove(&span.start);
                let _ = writeln!(report, "{clash}");
            }
            if edits.is_empty() {
                if wrong > before {
                    let _ = writeln!(report, "{file}: nothing that could be blessed");
                }
                continue;
            }
            let mut text = text.clone();
            for (span, new) in edits.values().rev() {
                text.replace_range(span.start..span.end, new);
            }
            write(Path::new(file), &text)?;
            blessed += edits.len();
            let _ = writeln!(report, "{file}: {} examples blessed", edits.len());
        }
        if blessed + wrong == 0 {
            let _ = writeln!(report, "nothing to bless: {examples} examples are as expected");
        }
        print(&report);
        match wrong {
            0 => Ok(()),
            _ => Err(format!(
                "{wrong} examples are wrong or missing, and cannot be blessed: mend the rule or write the example"
            )),
        }
    }
}

/// The edit that makes an example right. Rows of a `for-each` that share one text must agree.
fn edit(
    loaded: &Loaded,
    rule: &Rule,
    verdict: &Verdict,
    edits: &mut BTreeMap<usize, (Span, String)>,
) -> Result<(), (Span, String)> {
    let Some(actual) = verdict.wrong.as_ref().and_then(|wrong| wrong.actual.as_ref()) else { return Ok(()) };
    let example = &rule.examples[verdict.index];
    let place = example.place();
    let literal = format!("{actual:?}");
    let (span, new) = match (place.expected, example) {
        (Some(span), _) => (span, literal),
        (None, Example::Fires { .. }) => (Span::at(place.graph.end), format!(", after: {literal}")),
        (None, Example::Refuses { .. }) => (Span::at(place.graph.end), format!(", because: {literal}")),
    };
    match edits.insert(span.start, (span, new.clone())) {
        Some((_, before)) if before != new => {
            let place = loaded.place(rule, place.graph);
            let what = format!(
                "{} ({place}): its rows of `for-each` become different graphs: write what is expected with \
                 `$key`, or an example for each row with `for`:\n    {before}\n    {new}",
                rule.name
            );
            Err((span, what))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    ovolo::file::write(path, &[text.as_bytes()]).map_err(|error| format!("{}: {error}", path.display()))
}

//! `ovolo rules test`.

use super::{Loaded, Source};
use crate::{Outcome, print};
use clap::Args;
use ovolo::error::Span;
use ovolo::op::Ops;
use ovolo::registry::Registry;
use ovolo::ron;
use ovolo::rule::{self, Example, Rule};
use ovolo_proof::example::{self as judged, ExampleVerdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct Test {
    #[command(flatten)]
    source: Source,
    /// Write the actual results as the expected ones into the files.
    #[arg(long)]
    bless: bool,
    /// Print JSON, a line for each rule.
    #[arg(long)]
    json: bool,
}

impl Test {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let loaded = self.source.load(registry)?;
        if self.bless {
            return self.bless(&loaded, registry.ops());
        }
        let mut text = String::new();
        let (mut wrong, mut examples) = (0, 0);
        let run = |rule: &Arc<Rule>| judged::run(rule, registry.ops());
        let all: Vec<Vec<ExampleVerdict>> = loaded.set.rules().iter().map(run).collect();
        // The shipped rules are compiled into the program.
        let files = !(self.source.files.is_empty() && self.source.rules.is_empty());
        let blessable = match files {
            true => Blessing::collect(&loaded, loaded.set.rules().iter().zip(&all)).mended,
            false => 0,
        };
        for (rule, verdicts) in loaded.set.rules().iter().zip(&all) {
            let lacks = judged::lacks(rule);
            examples += verdicts.len();
            wrong += verdicts.iter().filter(|verdict| verdict.wrong.is_some()).count();
            wrong += usize::from(lacks.is_some());
            if self.json {
                let failures: Vec<_> = verdicts
                    .iter()
                    .filter_map(|v| {
                        let why = &v.wrong.as_ref()?.message;
                        let example = &rule.examples[v.index];
                        let (line, column) = loaded.line_column_of(example);
                        Some(serde_json::json!({
                            "example": v.index, "why": why, "file": *example.place().file,
                            "line": line, "column": column,
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
            for verdict in verdicts {
                let Some(why) = &verdict.wrong else { continue };
                let place = loaded.place_of(&rule.examples[verdict.index]);
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
            // A missing or invalid example cannot be blessed.
            _ if blessable == 0 => {
                Err(format!("{wrong} examples are wrong or missing: correct the rule or write the example"))
            }
            _ => Err(format!(
                "{wrong} examples are wrong or missing; `--bless` writes the actual results into the files{}",
                if blessable < wrong { format!(" for {blessable} of them") } else { String::new() }
            )),
        }
    }

    /// Writes the actual results as the expected ones, file by file.
    fn bless(&self, loaded: &Loaded, ops: &Ops) -> Outcome {
        if self.source.files.is_empty() && self.source.rules.is_empty() {
            return Err("the shipped rules are part of the program: name their files to bless them".into());
        }
        let mut report = String::new();
        let (mut blessed, mut wrong, mut examples) = (0, 0, 0);
        let rule_files =
            loaded.files.iter().filter(|(file, _)| loaded.set.rules().iter().any(|rule| rule.file == *file));
        for (file, _) in rule_files {
            let before = wrong;
            let of_file = loaded.set.rules().iter().filter(|rule| rule.file == *file);
            let of_file: Vec<(&Arc<Rule>, Vec<ExampleVerdict>)> =
                of_file.map(|rule| (rule, judged::run(rule, ops))).collect();
            for (rule, verdicts) in &of_file {
                if let Some(lacks) = judged::lacks(rule) {
                    wrong += 1;
                    let place = loaded.place(rule, rule.places.name);
                    let _ = writeln!(report, "{} ({place}): {lacks}", rule.name);
                }
                examples += verdicts.len();
                for verdict in verdicts {
                    if let Some(why) = verdict.wrong.as_ref().filter(|wrong| wrong.actual.is_none()) {
                        wrong += 1;
                        let place = loaded.place_of(&rule.examples[verdict.index]);
                        let _ = writeln!(report, "{} ({place}): {}", rule.name, why.message);
                    }
                }
            }
            let of_file = of_file.iter().map(|(rule, verdicts)| (*rule, verdicts));
            let Blessing { edits, clashes, .. } = Blessing::collect(loaded, of_file);
            for clash in clashes {
                wrong += 1;
                let _ = writeln!(report, "{clash}");
            }
            if edits.is_empty() {
                if wrong > before {
                    let _ = writeln!(report, "{file}: nothing can be blessed");
                }
                continue;
            }
            let examples = rule::beside(file);
            let mut text = loaded.text(&examples).to_owned();
            for (span, new) in edits.values().rev() {
                text.replace_range(span.start..span.end, new);
            }
            write(Path::new(&examples), &text)?;
            blessed += edits.len();
            let _ = writeln!(report, "{examples}: {} examples blessed", edits.len());
        }
        if blessed + wrong == 0 {
            let _ = writeln!(report, "nothing to bless: {examples} examples are as expected");
        }
        print(&report);
        match wrong {
            0 => Ok(()),
            _ => Err(format!(
                "{wrong} examples are wrong or missing, and cannot be blessed: correct the rule or write the example"
            )),
        }
    }
}

/// The edits that make the examples of a file right.
#[derive(Default)]
struct Blessing {
    /// The new texts with the spans they replace, by file and position.
    edits: BTreeMap<(Arc<str>, usize), (Span, String)>,
    /// The number of examples that the edits make right.
    mended: usize,
    /// Examples that cannot be blessed: the rows of a `for_each` share one text, but become different graphs.
    clashes: Vec<String>,
}

/// An expectation that examples of several rows share.
struct Shared<'a> {
    rule: &'a Rule,
    example: &'a Example,
    span: Span,
    /// The different texts that wrong rows would need, and the number of wrong rows.
    wanted: BTreeSet<String>,
    wrong: usize,
    /// Whether some row is right already.
    kept: bool,
}

impl Blessing {
    /// Collects the edits for some rules from the results of their examples.
    fn collect<'a>(
        loaded: &Loaded,
        rules: impl Iterator<Item = (&'a Arc<Rule>, &'a Vec<ExampleVerdict>)>,
    ) -> Self {
        let mut texts: BTreeMap<(Arc<str>, usize), Shared<'_>> = BTreeMap::new();
        for (rule, verdicts) in rules {
            for verdict in verdicts {
                let example = &rule.examples[verdict.index];
                let place = example.place();
                let span = place.expected.unwrap_or(Span::at(place.graph.end));
                let actual = verdict.wrong.as_ref().map(|wrong| wrong.actual.as_ref());
                let text = texts.entry((Arc::clone(&place.file), span.start)).or_insert(Shared {
                    rule,
                    example,
                    span,
                    wanted: BTreeSet::new(),
                    wrong: 0,
                    kept: false,
                });
                match actual {
                    None => text.kept = true,
                    Some(None) => {}
                    Some(Some(actual)) => {
                        text.wanted.insert(written(loaded.text(&place.file), example, actual));
                        text.wrong += 1;
                    }
                }
            }
        }
        let mut blessing = Self::default();
        for (at, text) in texts {
            let Shared { rule, example, span, wanted, wrong, kept } = text;
            let mut wanted = wanted.into_iter();
            match (wanted.next(), wanted.next()) {
                (None, _) => {}
                (Some(new), None) if !kept => {
                    blessing.mended += wrong;
                    blessing.edits.insert(at, (span, new));
                }
                (Some(one), other) => {
                    let other =
                        other.unwrap_or_else(|| "the present text, which is right for other rows".into());
                    blessing.clashes.push(format!(
                        "{} ({}): its rows of `for_each` become different graphs: write the expectation with \
                         `$key`, or an example for each row with `for`:\n    {one}\n    {other}",
                        rule.name,
                        loaded.place_of(example)
                    ));
                }
            }
        }
        blessing
    }
}

/// Returns the text that is expected of an example, as its file must have it: in place of the present text, or after
/// the graph.
fn written(file: &str, example: &Example, expected: &str) -> String {
    let place = example.place();
    let line = file[..place.graph.start].rfind('\n').map_or(0, |end| end + 1);
    let before = &file[line..place.graph.start];
    let indent = before.len() - before.trim_start().len();
    let text = ron::statements(expected, indent);
    let key = match example {
        _ if place.expected.is_some() => return text,
        Example::Fires { .. } => "after",
        Example::Refuses { .. } => "because",
    };
    // If the graph has its own line, the expected text gets one too.
    match before.trim_start().starts_with(['f', 'r']) {
        true => format!(",\n{}{key}: {text}", &before[..indent]),
        false => format!(", {key}: {text}"),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    ovolo::file::write(path, &[text.as_bytes()]).map_err(|error| format!("{}: {error}", path.display()))
}

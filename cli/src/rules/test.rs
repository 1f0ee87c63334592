//! `ovolo rules test`.

use super::{Loaded, Source};
use crate::{Outcome, amount, print};
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
        let ops = registry.ops();
        let (mut text, mut told) = (String::new(), Told::default());
        let (mut wrong, mut missing, mut examples) = (0, 0, 0);
        let run = |rule: &Arc<Rule>| judged::run(rule, ops);
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
            missing += usize::from(lacks.is_some());
            if self.json {
                let failures: Vec<_> = verdicts
                    .iter()
                    .filter_map(|v| {
                        let example = &rule.examples[v.index];
                        let why = why(&loaded, example, &v.wrong.as_ref()?.message, ops);
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
                told.lacks(&loaded, rule, lacks);
            }
            for verdict in verdicts {
                let Some(wrong) = &verdict.wrong else { continue };
                told.example(&loaded, rule, &rule.examples[verdict.index], &wrong.message, ops);
            }
        }
        text += &told.text();
        let rules = loaded.set.rules().len();
        if !self.json {
            let _ = writeln!(
                text,
                "{}, {}, {wrong} wrong{}",
                amount::of(rules, "rule"),
                amount::of(examples, "example"),
                if missing > 0 { format!(", {missing} missing") } else { String::new() }
            );
        }
        print(&text);
        let wrong = wrong + missing;
        match wrong {
            0 => Ok(()),
            // A missing or invalid example cannot be blessed.
            _ if blessable == 0 => {
                Err(format!("{}: correct the rule or write the example", wrong_or_missing(wrong)))
            }
            _ => Err(format!(
                "{}; `--bless` writes the actual results into the files{}",
                wrong_or_missing(wrong),
                if blessable < wrong { format!(" for {blessable} of them") } else { String::new() }
            )),
        }
    }

    /// Writes the actual results as the expected ones, file by file.
    fn bless(&self, loaded: &Loaded, ops: &Ops) -> Outcome {
        if self.source.files.is_empty() && self.source.rules.is_empty() {
            return Err("the shipped rules are part of the program: name their files to bless them".into());
        }
        let (mut report, mut told) = (String::new(), Told::default());
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
                    told.lacks(loaded, rule, lacks);
                }
                examples += verdicts.len();
                for verdict in verdicts {
                    if let Some(why) = verdict.wrong.as_ref().filter(|wrong| wrong.actual.is_none()) {
                        wrong += 1;
                        told.example(loaded, rule, &rule.examples[verdict.index], &why.message, ops);
                    }
                }
            }
            report += &std::mem::take(&mut told).text();
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
            let _ = writeln!(report, "{examples}: {} blessed", amount::of(edits.len(), "example"));
        }
        if blessed + wrong == 0 {
            let _ = writeln!(
                report,
                "nothing to bless: {} {} as expected",
                amount::of(examples, "example"),
                if examples == 1 { "is" } else { "are" }
            );
        }
        print(&report);
        match wrong {
            0 => Ok(()),
            _ => Err(format!(
                "{}, and cannot be blessed: correct the rule or write the example",
                wrong_or_missing(wrong)
            )),
        }
    }
}

/// What is wrong with examples, each with its place. The rows of a `for_each` share examples: what is wrong with one in
/// several rows is told for the first, and the others are counted.
#[derive(Default)]
struct Told {
    /// The place of the text, what is told of it, and the number of further rows.
    entries: Vec<((String, usize), String, usize)>,
}

impl Told {
    fn add(&mut self, at: (String, usize), text: impl FnOnce() -> String) {
        match self.entries.iter_mut().find(|(known, ..)| *known == at) {
            Some((.., more)) => *more += 1,
            None => self.entries.push((at, text(), 0)),
        }
    }

    /// Tells that a rule lacks examples.
    fn lacks(&mut self, loaded: &Loaded, rule: &Rule, lacks: &str) {
        let at = (rule.file.clone(), rule.places.name.start);
        self.add(at, || format!("{} ({}): {lacks}", rule.name, loaded.place(rule, rule.places.name)));
    }

    /// Tells that an example does not do what it should.
    fn example(&mut self, loaded: &Loaded, rule: &Rule, example: &Example, message: &str, ops: &Ops) {
        let at = (example.place().file.to_string(), example.place().graph.start);
        self.add(at, || {
            format!("{} ({}): {}", rule.name, loaded.place_of(example), why(loaded, example, message, ops))
        });
    }

    fn text(&self) -> String {
        let line = |(_, text, more): &((String, usize), String, usize)| match more {
            0 => format!("{text}\n"),
            more => format!("{text}\n  (and so in {} of its `for_each`)\n", amount::of(*more, "other row")),
        };
        self.entries.iter().map(line).collect()
    }
}

/// Returns what is wrong with an example. Mistakes in its graph have their places in the file.
fn why(loaded: &Loaded, example: &Example, message: &str, ops: &Ops) -> String {
    match judged::misread(example, loaded.text(&example.place().file), ops) {
        Some(found) => format!("the graph cannot be parsed:\n{found}"),
        None => message.to_owned(),
    }
}

/// Says how many examples are wrong or missing.
fn wrong_or_missing(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb} wrong or missing", amount::of(count, "example"))
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
    /// What each row needs or has; `None` if that is not known of one.
    rows: Option<Vec<(&'a Rule, String)>>,
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
                    rows: Some(Vec::new()),
                    kept: false,
                });
                let needs = match (actual, example) {
                    (Some(actual), _) => actual.cloned(),
                    (None, Example::Fires { after: text, .. }) => text.clone(),
                    (None, Example::Refuses { because: text, .. }) => text.clone(),
                };
                match (&mut text.rows, needs) {
                    (Some(rows), Some(needs)) => rows.push((rule, needs)),
                    (rows, _) => *rows = None,
                }
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
            let Shared { rule, example, span, wanted, wrong, rows, kept } = text;
            if let Some(common) =
                rows.filter(|_| wrong > 0 && (kept || wanted.len() > 1)).and_then(|rows| common(&rows))
            {
                blessing.mended += wrong;
                blessing
                    .edits
                    .insert(at, (span, written(loaded.text(&example.place().file), example, &common)));
                continue;
            }
            let mut wanted = wanted.into_iter();
            match (wanted.next(), wanted.next()) {
                (None, _) => {}
                (Some(new), None) if !kept => {
                    blessing.mended += wrong;
                    blessing.edits.insert(at, (span, new));
                }
                (Some(one), other) => {
                    // In the file, a comma parts it from the graph.
                    let bare = |text: String| text.trim_start_matches([',', '\n', ' ']).to_owned();
                    let one = bare(one);
                    let other =
                        other.map_or_else(|| "the present text, which is right for other rows".into(), bare);
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

/// Returns the text with `$key` that becomes what each row needs, if there is one.
fn common(rows: &[(&Rule, String)]) -> Option<String> {
    let (first, needs) = rows.first()?;
    let values = |rule: &Rule| -> Vec<(String, String)> {
        rule.keys.iter().zip(&rule.row).map(|(key, value)| (format!("${key}"), value.clone())).collect()
    };
    // A longer value may contain a shorter one.
    let mut keys = values(first);
    keys.retain(|(_, value)| !value.is_empty());
    keys.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    let common = keys.iter().fold(needs.clone(), |text, (key, value)| with_key(&text, key, value));
    let becomes = |(rule, needs): &(&Rule, String)| {
        let mut all = values(rule);
        // `$op` begins `$operand`.
        all.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
        all.iter().fold(common.clone(), |text, (key, value)| text.replace(key, value)) == *needs
    };
    rows.iter().all(becomes).then_some(common)
}

/// Replaces a value by its key wherever the value is a whole word.
fn with_key(text: &str, key: &str, value: &str) -> String {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let (before, after) = (&rest[..at], &rest[at + value.len()..]);
        let whole = !before.ends_with(inner) && !after.starts_with(inner);
        result.push_str(before);
        result.push_str(if whole { key } else { value });
        rest = after;
    }
    result + rest
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

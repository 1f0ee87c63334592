//! The page of one rule: its law and text, what it does to graphs, what verified it, where it is used, and what it is worth.

use super::drawing::{escaped, svg};
use super::worth::Worth;
use super::{Loaded, Written};
use crate::rules::verify::{features, verdict};
use ovolo::Pipeline;
use ovolo::egraph::{EGraph, Probe};
use ovolo::graph::{Graph, text};
use ovolo::registry::Registry;
use ovolo::rule::{Example, Rule};
use ovolo_proof::example::LARGEST;
use std::fmt::Write;

/// The most rules that a page names, of those that one text stands for.
const NAMED: usize = 12;

pub(super) struct Page<'a> {
    pub registry: &'a Registry,
    pub loaded: &'a Loaded,
    pub pipelines: &'a [Pipeline],
    pub worth: Option<&'a Worth>,
}

impl Page<'_> {
    /// Returns the page of a rule.
    pub(super) fn of(&self, written: &Written<'_>) -> String {
        let rule = written.first();
        let mut text = format!("# {}\n\n{}\n\n", rule.written, rule.doc);
        let _ = write!(text, "`{}`, line {}", rule.file, rule.line);
        if written.rules.len() > 1 {
            let names: Vec<String> =
                written.rules.iter().take(NAMED).map(|(rule, _)| format!("`{}`", rule.name)).collect();
            let more = written.rules.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = write!(text, ". It stands for {} rules: {}{more}", written.rules.len(), names.join(", "));
        }
        let _ = write!(text, ".\n\n```ron\n{}\n```\n", source(self.loaded.text(&rule.file), rule.line));
        for one in &rule.assumes {
            let _ = write!(
                text,
                "\nIt assumes that values are {one}, so only pipelines that assume the same have it.\n"
            );
        }
        if rule.precision != ovolo::rule::Precision::F32 {
            let _ = write!(
                text,
                "\nIt rounds to {}, so only pipelines of that precision have it.\n",
                rule.precision
            );
        }
        self.fires(&mut text, rule);
        self.refuses(&mut text, rule);
        verified(&mut text, written);
        self.used(&mut text, rule);
        self.worth(&mut text, written);
        text
    }

    /// Tells what the rule does to the graphs of its examples.
    fn fires(&self, text: &mut String, rule: &Rule) {
        let mut first = true;
        for example in &rule.examples {
            let Example::Fires { after: Some(becomes), .. } = example else { continue };
            let Some((before, after)) = self.both(rule, example) else { continue };
            if std::mem::take(&mut first) {
                text.push_str("\n## What it does\n");
            }
            let (drawing, then) = (svg(&before), svg(&after));
            let _ = write!(
                text,
                "\n{drawing}\n\n```text\n{}```\n\nbecomes\n\n{then}\n\n```text\n{}\n```\n",
                indented(&example.graph()),
                becomes.trim()
            );
        }
    }

    /// Returns the graph of an example, and that after the first match.
    fn both(&self, rule: &Rule, example: &Example) -> Option<(Graph, Graph)> {
        let before = text::parse_small(self.registry.ops(), &example.graph(), LARGEST).ok()?;
        let before = ovolo::verify::verify(before).ok()?;
        match EGraph::new(&before).probe(rule) {
            Probe::Fires(after) => Some((before.into_inner(), after)),
            _ => None,
        }
    }

    /// Tells which graphs the rule leaves alone.
    fn refuses(&self, text: &mut String, rule: &Rule) {
        let mut first = true;
        for example in &rule.examples {
            let Example::Refuses { because, .. } = example else { continue };
            if std::mem::take(&mut first) {
                text.push_str("\n## Where it does nothing\n");
            }
            let why = match because.as_deref() {
                None | Some(ovolo_proof::example::NO_MATCH) => {
                    "Its left side does not match here:".to_owned()
                }
                Some(guard) => format!("The guard `{guard}` refuses this:"),
            };
            let graph = example.graph();
            let _ = write!(text, "\n{why}\n\n```text\n{}```\n", indented(&graph));
        }
    }

    /// Tells which shipped pipelines name the rule, in which phase.
    fn used(&self, text: &mut String, rule: &Rule) {
        text.push_str("\n## Where it is used\n\n");
        let fits =
            |pipeline: &&Pipeline| rule.fits(&pipeline.assume) && pipeline.precision.allows(rule.precision);
        let mut lines = 0;
        for pipeline in self.pipelines.iter().filter(fits) {
            let phases: Vec<String> = pipeline
                .rewrites()
                .filter(|phase| phase.names(rule))
                .map(|phase| format!("`{}`", phase.name))
                .collect();
            if !phases.is_empty() {
                let _ = writeln!(text, "- `{}`, in {}", pipeline.name, phases.join(" and "));
                lines += 1;
            }
        }
        if lines == 0 {
            text.push_str("No shipped pipeline has it.\n");
        }
    }

    /// Tells on which models a plan costs more without the rule.
    fn worth(&self, text: &mut String, written: &Written<'_>) {
        let Some(worth) = self.worth else { return };
        text.push_str("\n## What it is worth\n\n");
        let mut rows = String::new();
        for (rule, _) in &written.rules {
            for (model, without) in worth.of(&rule.name) {
                let cost = without.map_or("no plan".to_owned(), |without| format!("{without:.3}"));
                let _ = writeln!(rows, "| `{}` | {model} | {cost} |", rule.name);
            }
        }
        if rows.is_empty() {
            let measured = written.rules.iter().any(|(rule, _)| worth.measured(&rule.name));
            let _ = match measured {
                true => writeln!(
                    text,
                    "None of the measured plans of {} models costs more without it alone.",
                    worth.models()
                ),
                false => writeln!(
                    text,
                    "This is not known: it led to none of the measured plans of {} models. Plans of other pipelines may need it.",
                    worth.models()
                ),
            };
            return;
        }
        let _ = write!(
            text,
            "The cost of the plan without the rule, divided by that of the plan with it, on those of {} models where it \
             is more than 1:\n\n| without | model | cost |\n|---|---|---|\n{rows}",
            worth.models()
        );
    }
}

/// Returns the text of a graph with its statements indented, however they stand in the file of examples.
fn indented(graph: &str) -> String {
    let lines = graph.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.fold(String::new(), |text, line| {
        let indent = if line.starts_with("graph") || line == "}" { "" } else { "  " };
        text + indent + line + "\n"
    })
}

/// Tells what instances the rule was verified on.
fn verified(text: &mut String, written: &Written<'_>) {
    text.push_str("\n## What verified it\n\n| rule | verdict | instances | seen |\n|---|---|---|---|\n");
    for (rule, one) in written.rules.iter().take(NAMED) {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            rule.name,
            verdict(one),
            one.instances,
            escaped(&features(&one.coverage))
        );
    }
    if let Some(rest) = written.rules.get(NAMED..).filter(|rest| !rest.is_empty()) {
        let held = rest.iter().filter(|(_, one)| one.holds()).count();
        let _ = write!(text, "\nOf the other {}, {held} hold.\n", rest.len());
    }
}

/// Returns the text of the rule that begins on a line, without the spaces before its lines.
fn source(file: &str, line: usize) -> String {
    let start: usize = file.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let text = &file[start..];
    let indent = text.len() - text.trim_start_matches(' ').len();
    let (mut depth, mut quoted, mut escape, mut comment) = (0_usize, false, false, false);
    let end = text.char_indices().find_map(|(at, letter)| {
        match letter {
            '\n' => comment = false,
            _ if comment => {}
            _ if escape => escape = false,
            '\\' if quoted => escape = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '/' if text[at..].starts_with("//") => comment = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (letter == ')' && depth == 0 && !quoted && !comment).then_some(at + 1)
    });
    let text = &text[..end.unwrap_or(text.len())];
    let lines =
        text.lines().map(|line| line.get(indent.min(line.len() - line.trim_start_matches(' ').len())..));
    lines.map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n")
}

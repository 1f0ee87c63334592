//! Runs the examples that stand beside rules.
//!
//! Takes rules and returns a verdict for each example: the graph becomes what `after` says, or the guard that
//! `because` names refuses. An example that nobody has blessed yet counts as wrong.

use ovolo::egraph::{EGraph, Probe};
use ovolo::error::{Diagnostic, Diagnostics, Source, Span};
use ovolo::graph::{CONST, Graph, INPUT, text};
use ovolo::op::Ops;
use ovolo::rule::{Example, Rule};
use ovolo::verify::{self, VerifyErrors};

/// The text of `because` when the left side matches nowhere.
pub const NO_MATCH: &str = "no match";

/// The most elements of a value in an example, because examples are evaluated.
pub const LARGEST: usize = 1 << 22;

/// The result of one example.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleVerdict {
    /// The rule's name.
    pub rule: String,
    /// The position of the example among the rule's examples.
    pub index: usize,
    /// What is wrong; `None` if the example holds.
    pub wrong: Option<Mismatch>,
}

/// Why an example does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// What happened, and what to do.
    pub message: String,
    /// The expectation that would be right, if the example may be blessed.
    pub actual: Option<String>,
}

/// Runs the examples of a rule. `ops` are the ops that their graphs may use.
pub fn run(rule: &Rule, ops: &Ops) -> Vec<ExampleVerdict> {
    let verdict = |(index, example)| ExampleVerdict {
        rule: rule.name.clone(),
        index,
        wrong: judge(rule, example, ops),
    };
    rule.examples.iter().enumerate().map(verdict).collect()
}

/// Returns what a rule lacks: an example that fires, or one that does not fire.
pub fn lacks(rule: &Rule) -> Option<&'static str> {
    let fires = rule.examples.iter().any(|example| matches!(example, Example::Fires { .. }));
    let refuses = rule.examples.iter().any(|example| matches!(example, Example::Refuses { .. }));
    match (fires, refuses) {
        (true, true) => None,
        (false, true) => Some("no example that fires"),
        (true, false) => Some("no example that must not fire"),
        (false, false) => Some("no examples"),
    }
}

fn judge(rule: &Rule, example: &Example, ops: &Ops) -> Option<Mismatch> {
    let wrong = |message: String, actual: Option<String>| Some(Mismatch { message, actual });
    let graph = match text::parse_small(ops, &example.graph(), LARGEST).map_err(|error| error.to_string()) {
        Ok(graph) => graph,
        Err(why) => return wrong(format!("the graph cannot be parsed: {}", why.trim_end()), None),
    };
    let graph = match verify::verify(graph) {
        Ok(graph) => graph,
        Err(why) => return wrong(format!("the graph is not valid: {}", unsound(&why)), None),
    };
    let probe = EGraph::new(&graph).probe(rule);
    match (example, probe) {
        (_, Probe::Mistyped(left, right)) => {
            wrong(format!("the left side is of type {left}, the right side of type {right}"), None)
        }
        (Example::Fires { after, .. }, Probe::Fires(graph)) => {
            let actual = compact(&graph);
            match after {
                Some(after) if *after == actual => None,
                Some(after) => {
                    let message =
                        format!("it becomes\n{}\ninstead of\n{}", indented(&actual), indented(after));
                    wrong(message, Some(actual))
                }
                None => {
                    let message = format!("`after` is missing: it becomes\n{}", indented(&actual));
                    wrong(message, Some(actual))
                }
            }
        }
        (Example::Fires { .. }, Probe::Refuses { guard, reason }) => {
            wrong(format!("it does not fire: `{}` refuses: {reason}", named(&guard)), None)
        }
        (Example::Fires { .. }, Probe::NoMatch) => {
            wrong("it does not fire: the left side matches nowhere in the graph".into(), None)
        }
        (Example::Fires { .. }, Probe::NoEffect) => {
            wrong("it fires but changes nothing: the right side exists already".into(), None)
        }
        (Example::Refuses { .. }, Probe::Fires(graph)) => {
            wrong(format!("it fires: the graph becomes\n{}", indented(&compact(&graph))), None)
        }
        (Example::Refuses { .. }, Probe::NoEffect) => {
            wrong("it fires but changes nothing: the right side exists already".into(), None)
        }
        (Example::Refuses { because, .. }, probe) => {
            let actual = match probe {
                Probe::Refuses { guard, .. } => named(&guard).to_owned(),
                _ => NO_MATCH.to_owned(),
            };
            match because {
                Some(because) if *because == actual => None,
                Some(because) => wrong(format!("`{actual}` refuses, not `{because}`"), Some(actual)),
                None => wrong(format!("`because` is missing: `{actual}` refuses"), Some(actual)),
            }
        }
    }
}

/// Says what is wrong with a graph that can be parsed, and how the text form says it.
pub(super) fn unsound(why: &VerifyErrors) -> String {
    why.to_string().replace("there are no outputs", "there are no outputs: write `return y` for each")
}

/// Returns the mistakes in the graph of an example, with their places in the file of examples, of which `file` is the
/// text; `None` if the graph can be parsed. A graph with `$key` has places of about the right line.
pub fn misread(example: &Example, file: &str, ops: &Ops) -> Option<Diagnostics> {
    let found = text::parse_small(ops, &example.graph(), LARGEST).err()?;
    let (Example::Fires { graph, place, .. } | Example::Refuses { graph, place, .. }) = example;
    let before = example.graph().find(graph.as_str()).unwrap_or(0);
    let written = place.graph.slice(file);
    let body = written.find('"').map_or(0, |quote| quote + 1);
    let shift = place.graph.start + body;
    let end = place.graph.end.saturating_sub(1).max(shift);
    let placed = |at: usize| {
        let at = at.saturating_sub(before).min(graph.len());
        if written[body..].starts_with(graph.as_str()) {
            return shift + at;
        }
        let head = graph.get(..at).unwrap_or(graph);
        let column = at - head.rfind('\n').map_or(0, |end| end + 1);
        let lines: Vec<&str> = written[body..].split_inclusive('\n').collect();
        let line = head.matches('\n').count().min(lines.len().saturating_sub(1));
        let start: usize = lines[..line].iter().map(|line| line.len()).sum();
        shift + start + column.min(lines.get(line).map_or(0, |line| line.trim_end().len()))
    };
    let mut shown = Diagnostics::new();
    let source = shown.add_source(Source::new(&*place.file, file));
    for diagnostic in &found {
        let mut diagnostic = diagnostic.clone();
        for label in &mut diagnostic.labels {
            label.source = source;
            label.span = Span::new(placed(label.span.start).min(end), placed(label.span.end).min(end));
        }
        shown.push(diagnostic);
    }
    Some(shown)
}

/// Joins the mistakes of a graph into one text, each with the text it points at.
pub(super) fn mistakes(found: &Diagnostics) -> String {
    let one = |diagnostic: &Diagnostic| {
        let at = diagnostic.labels.first().and_then(|label| {
            let source = found.sources().get(label.source)?;
            Some(label.span.slice(&source.text).trim()).filter(|text| !text.is_empty())
        });
        let at = at.map(|at| format!(" (at `{at}`)")).unwrap_or_default();
        format!("{}{at}", diagnostic.message)
    };
    found.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// A guard's name in messages. The check that the right side has a type counts as a guard.
fn named(guard: &str) -> &str {
    if guard.is_empty() { "types" } else { guard }
}

/// Prints a graph, a statement a line: its ops, and outputs that are inputs or constants. Types are left out.
pub fn compact(graph: &Graph) -> String {
    let mut lines: Vec<String> = graph
        .nodes()
        .filter(|(_, node)| node.op != INPUT && node.op != CONST)
        .map(|(id, node)| format!("{} = {}", text::quote(&node.name), text::print_value(graph, id)))
        .collect();
    for (name, id) in graph.outputs() {
        if **name != *graph[id].name {
            lines.push(format!("{} = {}", text::quote(name), text::quote(&graph[id].name)));
        }
    }
    lines.join("\n")
}

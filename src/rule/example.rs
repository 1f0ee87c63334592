//! Examples: graphs beside a rule that say what it does, and what it leaves alone.
//!
//! ```text
//! examples: [
//!     Example(fires: "x: f32[4] = input; y = relu(x); return y", after: "y = map(x) {post: <relu>}"),
//!     Example(refuses: "x: i32[4] = input; y = relu(x); return y", because: "is-f32(?x)"),
//!     Example(for: { op: "exp" }, fires: "…", after: "…"),
//! ]
//! ```
//!
//! A graph is in text form, without `graph { … }` around it. `after` lists what the graph holds
//! beside inputs and constants once the rule is applied at its first match; `because` is the guard
//! that says no, or `no match`. `for` keeps an example to some rows of a `for-each`; in any other,
//! `$key` is replaced as in the rule.

use super::reader::{Reader, in_rows};
use super::ron::{Field, Text, Value};
use crate::error::Span;

/// A graph beside a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// The rule fires on this graph.
    Fires {
        /// The graph, in text form.
        graph: String,
        /// What it becomes; `None` while nobody has blessed it.
        after: Option<String>,
        /// Where the example stands.
        place: Place,
    },
    /// The rule does not fire on this graph.
    Refuses {
        /// The graph, in text form.
        graph: String,
        /// The guard that says no, or `no match`.
        because: Option<String>,
        /// Where the example stands.
        place: Place,
    },
}

/// The places of an example in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The graph, quotes included.
    pub graph: Span,
    /// What is expected, quotes included; where there is none, nothing after the graph.
    pub expected: Option<Span>,
    /// Whether other rows of a `for-each` read the same text.
    pub shared: bool,
}

impl Example {
    /// The graph, as a whole text.
    pub fn graph(&self) -> String {
        let (Self::Fires { graph, .. } | Self::Refuses { graph, .. }) = self;
        if graph.trim_start().starts_with("graph") { graph.clone() } else { format!("graph {{\n{graph}\n}}") }
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        let (Self::Fires { place, .. } | Self::Refuses { place, .. }) = self;
        *place
    }
}

/// An example as it is written, before `for-each` is written out.
pub(super) struct Draft<'a> {
    fires: bool,
    graph: (&'a Text, Span),
    expected: Option<(&'a Text, Span)>,
    rows: Vec<(String, Vec<String>)>,
    /// Where its `for` stands.
    place: Span,
}

impl Draft<'_> {
    /// Whether the example is of this row.
    fn fits(&self, row: &[(String, String)]) -> bool {
        self.rows
            .iter()
            .all(|(key, values)| row.iter().any(|(known, value)| known == key && values.contains(value)))
    }
}

const KEYS: &[&str] = &["fires", "after", "refuses", "because", "for"];

/// The examples of a rule.
pub(super) fn read<'a>(reader: &mut Reader<'_>, fields: &'a [Field]) -> Vec<Draft<'a>> {
    let Some(field) = fields.iter().find(|field| field.key == "examples") else { return Vec::new() };
    let Value::List(items) = &field.node.value else {
        reader.mistake("`examples` is a list", field.node.span, "write `examples: [Example(…), …]`");
        return Vec::new();
    };
    let mut drafts = Vec::new();
    for item in items {
        match &item.value {
            Value::Struct { name, fields, .. } if name == "Example" => {
                drafts.extend(draft(reader, fields, item.span));
            }
            _ => reader.mistake(
                "an example is `Example(…)`",
                item.span,
                "write `Example(fires: …, after: …)` or `Example(refuses: …, because: …)`",
            ),
        }
    }
    drafts
}

fn draft<'a>(reader: &mut Reader<'_>, fields: &'a [Field], span: Span) -> Option<Draft<'a>> {
    for field in fields.iter().filter(|field| !KEYS.contains(&field.key.as_str())) {
        reader.unknown("key", &field.key, field.key_span, KEYS);
    }
    let mut text = |key: &str| {
        let field = fields.iter().find(|field| field.key == key)?;
        match &field.node.value {
            Value::Str(text) => Some((text, field.node.span)),
            _ => {
                reader.mistake(
                    format!("`{key}` is text in quotes"),
                    field.node.span,
                    format!("write `{key}: \"…\"`"),
                );
                None
            }
        }
    };
    let (fires, after, refuses, because) = (text("fires"), text("after"), text("refuses"), text("because"));
    let (fires, graph, expected) = match (fires, refuses) {
        (Some(graph), None) if because.is_none() => (true, graph, after),
        (None, Some(graph)) if after.is_none() => (false, graph, because),
        _ => {
            reader.mistake(
                "an example has `fires` and `after`, or `refuses` and `because`",
                span,
                "make two examples of it, or take away what belongs to the other kind",
            );
            return None;
        }
    };
    let mut rows = Vec::new();
    let mut place = span;
    if let Some(field) = fields.iter().find(|field| field.key == "for") {
        place = field.node.span;
        match &field.node.value {
            Value::Map(entries) => {
                for entry in entries {
                    let values = match &entry.node.value {
                        Value::List(items) => items.iter().filter_map(|item| reader.scalar(item)).collect(),
                        _ => reader.scalar(&entry.node).into_iter().collect(),
                    };
                    rows.push((entry.key.clone(), values));
                }
            }
            _ => reader.mistake(
                "`for` is a map of a row's values",
                field.node.span,
                "write `for: { op: \"exp\" }`",
            ),
        }
    }
    Some(Draft { fires, graph, expected, rows, place })
}

/// A mistake for each example that is of no row.
pub(super) fn fitting(reader: &mut Reader<'_>, drafts: &[Draft<'_>], rows: &[Vec<(String, String)>]) {
    for draft in drafts.iter().filter(|draft| !rows.iter().any(|row| draft.fits(row))) {
        let shown = |row: &Vec<(String, String)>| {
            let values: Vec<String> = row.iter().map(|(key, value)| format!("{key}: \"{value}\"")).collect();
            format!("{{ {} }}", values.join(", "))
        };
        let keys: Vec<&str> = rows.iter().flatten().map(|(key, _)| key.as_str()).collect();
        let unknown = draft.rows.iter().find(|(key, _)| !keys.contains(&key.as_str()));
        let message = match unknown {
            Some((key, _)) => format!("`for` asks for `{key}`, which `for-each` has not"),
            None => "`for` fits no row of `for-each`, so that the example is of no rule".to_owned(),
        };
        let some: Vec<String> = rows.iter().filter(|row| !row.is_empty()).take(4).map(shown).collect();
        let help = match &some[..] {
            [] => "the rule has no `for-each`: take `for` away".to_owned(),
            some => format!("the rows are {}{}", some.join(", "), if rows.len() > 4 { ", …" } else { "" }),
        };
        reader.mistake(message, draft.place, help);
    }
}

/// The examples of one row of `for-each`.
pub(super) fn fill(
    reader: &mut Reader<'_>,
    drafts: &[Draft<'_>],
    row: &[(String, String)],
    only: bool,
    used: &mut Vec<String>,
) -> Vec<Example> {
    let mut examples = Vec::new();
    for draft in drafts {
        if !draft.fits(row) {
            continue;
        }
        let mut replaced = |(text, span): (&Text, Span)| match text.replace(row, used) {
            Ok(text) => Some((text.text, span)),
            Err((name, span)) => {
                let known: Vec<String> = row.iter().map(|(key, _)| format!("`${key}`")).collect();
                reader.mistake(format!("`${name}` is not in `for-each`"), span, in_rows(&known));
                None
            }
        };
        let Some((graph, graph_span)) = replaced(draft.graph) else { continue };
        let expected = draft.expected.and_then(&mut replaced);
        let place = Place {
            graph: graph_span,
            expected: expected.as_ref().map(|(_, span)| *span),
            shared: !only && draft.rows.len() < row.len(),
        };
        let expected = expected.map(|(text, _)| text);
        examples.push(match draft.fires {
            true => Example::Fires { graph, after: expected, place },
            false => Example::Refuses { graph, because: expected, place },
        });
    }
    examples
}

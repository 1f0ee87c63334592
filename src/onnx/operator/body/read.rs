//! The reader of tables of bodies.

use super::expression::{Expression, Number, Unary};
use super::parse::{self, Mistake, Names};
use super::{Action, Attribute, AttributeKind, Body, Line};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::onnx::NEWEST_OPSET;
use crate::ron::{Entries, Raw, Reader, Spanned, Text};
use serde::Deserialize;

/// A row as it is written in a file.
#[derive(Deserialize)]
#[serde(rename = "Body")]
struct Row<'a> {
    name: Spanned<String>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    #[serde(default, borrow)]
    attributes: Entries<String, Raw<'a>>,
    #[serde(default)]
    opset: Option<i64>,
    body: Vec<Text>,
}

/// Returns a text that lives until the process ends, as operators do.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// Reads a table. Mistakes are added to `found`, and a row with a mistake is left out.
pub(super) fn read(source: &Source, before: &[Body], found: &mut Diagnostics) -> Vec<Body> {
    let at = found.add_source(source.clone());
    let mut reader = Reader::new(found, at);
    let text = reader.mend(&source.text);
    let Some(items) = reader.items(&text, "Body") else {
        if let Some(raw) = reader.document(&text) {
            let help = "write `[Body(name: …, inputs: […], outputs: […], body: […]), …]`";
            reader.mistake("a table of bodies is a list", raw.span(), help);
        }
        return Vec::new();
    };
    let mut bodies: Vec<Body> = Vec::new();
    for raw in items {
        let Some(row) = reader.read::<Row<'_>>(raw) else { continue };
        if before.iter().chain(&bodies).any(|body| body.name == row.name.value) {
            let message = format!("there are two bodies of `{}`", row.name.value);
            reader.mistake(message, row.name.span, "remove one of them");
            continue;
        }
        bodies.extend(Rows { reader: &mut reader, source: at }.body(&row));
    }
    bodies
}

struct Rows<'a, 'f> {
    reader: &'a mut Reader<'f>,
    source: usize,
}

impl Rows<'_, '_> {
    fn body(&mut self, row: &Row<'_>) -> Option<Body> {
        let inputs: Vec<(String, bool)> = row
            .inputs
            .iter()
            .map(|name| (name.trim_end_matches('?').to_owned(), name.ends_with('?')))
            .collect();
        let mut right = true;
        let mut attributes = Vec::new();
        for (name, raw) in &row.attributes.0 {
            match self.attribute(name, *raw) {
                Some(attribute) => attributes.push(attribute),
                None => right = false,
            }
        }
        let mut names: Vec<&'static str> = attributes.iter().map(|attribute| attribute.name).collect();
        let mut values: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
        let mut lines: Vec<Line> = Vec::new();
        for text in &row.body {
            match parse::line(&text.text, &Names { values: &values, attributes: &names }) {
                Ok(line) => {
                    values.extend(line.targets.iter().cloned());
                    if let Action::Set(name, _) = &line.action {
                        names.push(name);
                    }
                    lines.push(line);
                }
                Err(mistake) => {
                    self.push(mistake, |range| text.span(range));
                    right = false;
                }
            }
        }
        let made = |output: &String| lines.iter().any(|line| line.targets.contains(output));
        if let Some(output) = row.outputs.iter().find(|output| right && !made(output)) {
            let message = format!("no line makes the result `{output}`");
            self.reader.mistake(message, row.name.span, "add the line, or remove the result");
            right = false;
        }
        right.then(|| Body {
            name: kept(&row.name.value),
            inputs,
            outputs: row.outputs.clone(),
            attributes,
            opset: row.opset.unwrap_or(NEWEST_OPSET),
            lines,
        })
    }

    /// Reads an attribute: its default, or the kind of its value if it has no default.
    fn attribute(&mut self, name: &str, raw: Raw<'_>) -> Option<Attribute> {
        let kind = match raw.text() {
            "Int" => Some(AttributeKind::Int),
            "Float" => Some(AttributeKind::Float),
            "Text" => Some(AttributeKind::Text),
            "Ints" => Some(AttributeKind::Ints),
            "Floats" => Some(AttributeKind::Floats),
            "Texts" => Some(AttributeKind::Texts),
            _ => None,
        };
        let name = kept(name);
        if let Some(kind) = kind {
            return Some(Attribute { name, kind, default: None });
        }
        let default = match parse::constant(raw.text()) {
            Ok(expression) => constant(&expression),
            Err(mistake) => {
                let start = raw.span().start;
                self.push(mistake, |range| Span::from(range).shifted(start));
                return None;
            }
        };
        let kind = match &default {
            Some(Number::Int(_)) => AttributeKind::Int,
            Some(Number::Float(_)) => AttributeKind::Float,
            Some(Number::Text(_)) => AttributeKind::Text,
            Some(Number::List(items)) if items.iter().all(|item| matches!(item, Number::Int(_))) => {
                AttributeKind::Ints
            }
            Some(Number::List(_)) => AttributeKind::Floats,
            _ => {
                let help = "write a default, or `Int`, `Float`, `Text`, `Ints`, `Floats` or `Texts` if there is none";
                self.reader.mistake(format!("`{name}` has no value of an attribute"), raw.span(), help);
                return None;
            }
        };
        Some(Attribute { name, kind, default })
    }

    fn push(&mut self, mistake: Mistake, place: impl Fn(std::ops::Range<usize>) -> Span) {
        let diagnostic =
            Diagnostic::new(mistake.message).label(self.source, place(mistake.range), "").help(mistake.help);
        self.reader.push(diagnostic);
    }
}

/// Returns the value of an expression without names.
fn constant(expression: &Expression) -> Option<Number> {
    match expression {
        Expression::Number(number) => Some(number.clone()),
        Expression::List(items) => items.iter().map(constant).collect::<Option<_>>().map(Number::List),
        Expression::Unary(Unary::Minus, operand) => match constant(operand)? {
            Number::Int(number) => Some(Number::Int(-number)),
            Number::Float(number) => Some(Number::Float(-number)),
            _ => None,
        },
        _ => None,
    }
}

//! Reading the examples beside a rule: one for each row of `for_each`.

use super::Reader;
use super::row::{Row, Scalar};
use crate::error::Span;
use crate::ron::{Entries, OneOrMany, Spanned, Text};
use crate::rule::example::{Example, Place};
use serde::de::{Deserialize, Deserializer, Error};

/// An example as it is written, before `for_each` is written out.
#[derive(serde::Deserialize)]
#[serde(rename = "Example")]
struct Form {
    #[serde(default)]
    fires: Option<Text>,
    #[serde(default)]
    after: Option<Text>,
    #[serde(default)]
    refuses: Option<Text>,
    #[serde(default)]
    because: Option<Text>,
    #[serde(default, rename = "for")]
    rows: Spanned<Entries<Text, OneOrMany<Scalar>>>,
}

/// An example, before `for_each` is written out.
pub(super) struct Draft {
    fires: bool,
    graph: Text,
    expected: Option<Text>,
    rows: Vec<(String, Vec<String>)>,
    /// Where its `for` stands; where it has none, the graph.
    place: Span,
}

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form { fires, after, refuses, because, rows } = Form::deserialize(deserializer)?;
        let (fires, graph, expected) = match (fires, refuses) {
            (Some(graph), None) if because.is_none() => (true, graph, after),
            (None, Some(graph)) if after.is_none() => (false, graph, because),
            _ => {
                return Err(D::Error::custom(
                    "an example has `fires` and `after`, or `refuses` and `because`\n\
                     make two examples of it, or remove what belongs to the other kind",
                ));
            }
        };
        let place = if rows.value.0.is_empty() { graph.value_span() } else { rows.span };
        let values = |values: &OneOrMany<Scalar>| values.0.iter().map(|value| value.0.clone()).collect();
        let rows = rows.value.0.iter().map(|(key, given)| (key.text.clone(), values(given))).collect();
        Ok(Self { fires, graph, expected, rows, place })
    }
}

impl Draft {
    /// Whether the example is of this row.
    fn fits(&self, row: &Row) -> bool {
        self.rows
            .iter()
            .all(|(key, values)| row.iter().any(|(known, value)| known == key && values.contains(value)))
    }
}

/// A mistake for each example that is of no row.
pub(super) fn fitting(reader: &mut Reader<'_>, drafts: &[Draft], rows: &[Row]) {
    for draft in drafts.iter().filter(|draft| !rows.iter().any(|row| draft.fits(row))) {
        let shown = |row: &Row| {
            let values: Vec<String> =
                row.iter().map(|(key, value)| format!("\"{key}\": \"{value}\"")).collect();
            format!("{{{}}}", values.join(", "))
        };
        let keys: Vec<&str> = rows.iter().flatten().map(|(key, _)| key.as_str()).collect();
        let unknown = draft.rows.iter().find(|(key, _)| !keys.contains(&key.as_str()));
        let message = match unknown {
            Some((key, _)) => format!("`for` asks for `{key}`, which `for_each` does not have"),
            None => "`for` fits no row of `for_each`, so that the example is of no rule".to_owned(),
        };
        let some: Vec<String> = rows.iter().filter(|row| !row.is_empty()).take(4).map(shown).collect();
        let help = match &some[..] {
            [] => "the rule has no `for_each`: remove `for`".to_owned(),
            some => format!("the rows are {}{}", some.join(", "), if rows.len() > 4 { ", …" } else { "" }),
        };
        reader.mistake(message, draft.place, help);
    }
}

/// The examples of one row of `for_each`.
pub(super) fn fill(
    reader: &mut Reader<'_>,
    drafts: &[Draft],
    row: &Row,
    only: bool,
    used: &mut Vec<String>,
) -> Vec<Example> {
    let mut examples = Vec::new();
    for draft in drafts.iter().filter(|draft| draft.fits(row)) {
        let Some(graph) = reader.fill(&draft.graph, row, used) else { continue };
        let expected = draft.expected.as_ref().and_then(|expected| reader.fill(expected, row, used));
        let place = Place {
            graph: graph.value_span(),
            expected: expected.as_ref().map(Text::value_span),
            shared: !only && draft.rows.len() < row.len(),
        };
        let (graph, expected) = (graph.text, expected.map(|text| text.text));
        examples.push(match draft.fires {
            true => Example::Fires { graph, after: expected, place },
            false => Example::Refuses { graph, because: expected, place },
        });
    }
    examples
}

//! The reader of the examples of a rule file. Each row of `for_each` has some examples.

use super::Reader;
use super::row::{Row, Scalar};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, nearest};
use crate::ron::{self, Entries, OneOrMany, Spanned, Text};
use crate::rule::example::{Example, Place};
use serde::de::{Deserialize, Deserializer, Error};
use std::sync::Arc;

/// An example as it is written, before `for_each` is expanded.
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

/// An example, before `for_each` is expanded.
struct Draft {
    fires: bool,
    graph: Text,
    expected: Option<Text>,
    rows: Vec<(String, Vec<String>)>,
    /// The position of its `for`; if there is none, of its graph.
    place: Span,
}

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form { fires, after, refuses, because, rows } = Form::deserialize(deserializer)?;
        if fires.is_none() && refuses.is_none() {
            return Err(D::Error::custom(
                "an example lacks its graph\n\
                 write `fires: \"…\"` for a graph that the rule changes, or `refuses: \"…\"` for one that it leaves alone",
            ));
        }
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
        let values = |values: &OneOrMany<Scalar>| values.0.iter().map(|value| value.text.clone()).collect();
        let rows = rows.value.0.iter().map(|(key, given)| (key.text.clone(), values(given))).collect();
        Ok(Self { fires, graph, expected, rows, place })
    }
}

impl Draft {
    /// Returns whether the example belongs to this row.
    fn fits(&self, row: &Row) -> bool {
        self.rows
            .iter()
            .all(|(key, values)| row.iter().any(|(known, value)| known == key && values.contains(value)))
    }
}

/// The examples of the rules with a name, which is written with `$key`.
#[derive(serde::Deserialize)]
#[serde(rename = "Examples")]
struct Group {
    rule: Text,
    examples: Vec<Draft>,
}

/// A rule as it is written, for finding its examples.
pub(super) struct Written {
    /// The name, with `$key`.
    pub name: String,
    /// The rows of its `for_each`.
    pub rows: Vec<Row>,
    /// The names of the rules after expansion.
    pub makes: Vec<String>,
}

/// The examples of a rule file.
#[derive(Default)]
pub(super) struct Beside {
    file: Arc<str>,
    source: usize,
    groups: Vec<Group>,
}

impl Beside {
    /// Reads a file of examples.
    pub fn read(found: &mut Diagnostics, file: &str, text: &str) -> Self {
        let source = found.add_source(Source::new(file, text));
        let mut reader = ron::Reader::new(found, source);
        let items = reader.items(text, "Examples").or_else(|| {
            let value = reader.document(text)?;
            let help = "write `[Examples(rule: \"…\", examples: […]), …]`";
            reader.mistake("a file of examples is a list", value.span(), help);
            None
        });
        let groups = items.unwrap_or_default().into_iter().filter_map(|item| {
            let rule = item.field("rule").and_then(Text::parse);
            reader.note(rule.map(|rule| super::in_rule(&rule.text)));
            reader.read::<Group>(item)
        });
        let groups = groups.collect();
        Self { file: file.into(), source, groups }
    }

    /// Returns the examples for one row of the rule of this name. `only` says whether the rule has no other row.
    pub fn fill(&self, reader: &mut Reader<'_>, rule: &str, row: &Row, only: bool) -> Vec<Example> {
        let rules = std::mem::replace(&mut reader.source, self.source);
        let drafts =
            self.groups.iter().filter(|group| group.rule.text == rule).flat_map(|group| &group.examples);
        let mut examples = Vec::new();
        for draft in drafts.filter(|draft| draft.fits(row)) {
            let Some(graph) = reader.fill(&draft.graph, row, &mut Vec::new()) else { continue };
            let expected =
                draft.expected.as_ref().and_then(|expected| reader.fill(expected, row, &mut Vec::new()));
            let place = Place {
                file: Arc::clone(&self.file),
                graph: graph.value_span(),
                expected: expected.as_ref().map(Text::value_span),
                shared: !only && draft.rows.len() < row.len(),
            };
            let graph = graph.text;
            examples.push(match draft.fires {
                true => Example::Fires {
                    graph,
                    after: expected.map(|expected| ron::lines(&expected.text).join("\n")),
                    place,
                },
                false => Example::Refuses {
                    graph,
                    because: expected.map(|expected| ron::flat(&expected.text)),
                    place,
                },
            });
        }
        reader.source = rules;
        examples
    }

    /// Reports each example that belongs to no rule or to no row, given all rules of the file.
    pub fn fitting(&self, found: &mut Diagnostics, file: &str, rules: &[Written]) {
        for group in &self.groups {
            let named: Vec<&Written> = rules.iter().filter(|rule| rule.name == group.rule.text).collect();
            match &named[..] {
                [] => {
                    found.push(self.absent(group, file, rules));
                    continue;
                }
                [_] => {}
                several => found.push(self.ambiguous(group, file, several.len())),
            }
            let rows: Vec<&Row> = named.iter().flat_map(|rule| &rule.rows).collect();
            for draft in group.examples.iter().filter(|draft| !rows.iter().any(|row| draft.fits(row))) {
                let note = super::in_rule(&group.rule.text);
                found.push(self.of_no_row(draft, &rows).note(note));
            }
        }
    }

    /// Returns the message that no rule has the name of a group.
    fn absent(&self, group: &Group, file: &str, rules: &[Written]) -> Diagnostic {
        let name = &group.rule.text;
        let row = rules.iter().find(|rule| rule.makes.contains(name));
        let help = match (row, nearest(name, rules.iter().map(|rule| rule.name.as_str()))) {
            (Some(rule), _) => {
                format!("it is a row of `{}`: write that, and `for` in its examples", rule.name)
            }
            (None, Some(close)) => format!("did you mean `{close}`?"),
            (None, None) => {
                "name a rule as it is written there, with `$key`, or remove the examples".to_owned()
            }
        };
        Diagnostic::new(format!("no rule of {file} is called `{name}`"))
            .label(self.source, group.rule.value_span(), "")
            .help(help)
    }

    /// Returns the message that several rules are written with the name of a group.
    fn ambiguous(&self, group: &Group, file: &str, rules: usize) -> Diagnostic {
        Diagnostic::new(format!("{rules} rules of {file} are written `{}`", group.rule.text))
            .label(self.source, group.rule.value_span(), "")
            .help("give the keys of their `for_each` different names: `map-$binary` beside `map-$op`")
    }

    /// Returns the message that an example belongs to none of these rows.
    fn of_no_row(&self, draft: &Draft, rows: &[&Row]) -> Diagnostic {
        let shown = |row: &Row| {
            let values: Vec<String> =
                row.iter().map(|(key, value)| format!("\"{key}\": \"{value}\"")).collect();
            format!("{{{}}}", values.join(", "))
        };
        let keys: Vec<&str> = rows.iter().flat_map(|row| row.iter()).map(|(key, _)| key.as_str()).collect();
        let unknown = draft.rows.iter().find(|(key, _)| !keys.contains(&key.as_str()));
        let message = match unknown {
            Some((key, _)) => format!("`for` asks for `{key}`, which `for_each` does not have"),
            None => "`for` fits no row of `for_each`, so that the example is of no rule".to_owned(),
        };
        let some: Vec<String> =
            rows.iter().filter(|row| !row.is_empty()).take(4).map(|row| shown(row)).collect();
        let help = match &some[..] {
            [] => "the rule has no `for_each`: remove `for`".to_owned(),
            some => format!("the rows are {}{}", some.join(", "), if rows.len() > 4 { ", …" } else { "" }),
        };
        Diagnostic::new(message).label(self.source, draft.place, "").help(help)
    }
}

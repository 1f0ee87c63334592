//! The form of a rule: its keys, and the rows of `for-each`.

use super::Reader;
use crate::error::{Diagnostic, Span, suggestion};
use crate::rule::ron::{Field, Node, Text, Value};
use crate::rule::{Places, Precision};

/// The keys of a rule.
pub(super) const KEYS: &[&str] = &["name", "from", "to", "when", "let", "for-each", "precision", "examples"];

/// What a rule is read from, before `for-each` is written out.
pub(super) struct Parts<'a> {
    pub name: &'a Text,
    pub from: Vec<&'a Text>,
    pub to: Vec<&'a Text>,
    pub when: Vec<&'a Text>,
    pub lets: Vec<(&'a Field, &'a Text)>,
    pub precision: Precision,
}

impl Parts<'_> {
    pub fn places(&self) -> Places {
        let whole = |text: &Text| text.span(0..text.text.len());
        let all = |texts: &[&Text]| texts.iter().map(|text| whole(text)).collect();
        Places {
            name: whole(self.name),
            from: all(&self.from),
            to: all(&self.to),
            when: all(&self.when),
            lets: self.lets.iter().map(|(_, text)| whole(text)).collect(),
            variables: Vec::new(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn parts<'n>(&mut self, fields: &'n [Field], head: Span) -> Option<Parts<'n>> {
        let mut required = |key: &str| {
            let field = fields.iter().find(|field| field.key == key);
            let meant = |field: &Field| {
                !KEYS.contains(&field.key.as_str())
                    && suggestion(&field.key, KEYS.iter().copied()) == Some(key)
            };
            // One that is misspelt is told already.
            if field.is_none() && !fields.iter().any(meant) {
                self.mistake(format!("the rule lacks `{key}`"), head, format!("add `{key}: \"…\"`"));
            }
            field
        };
        let (name, from, to) = (required("name"), required("from"), required("to"));
        let (name, from, to) = (name?, from?, to?);
        let Value::Str(name_text) = &name.node.value else {
            self.mistake("a rule's name is text in quotes", name.node.span, "write `name: \"…\"`");
            return None;
        };
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '$';
        let plain = name_text.text.replace(|c: char| c.is_ascii_alphanumeric(), "");
        if name_text.text.is_empty()
            || !name_text.text.contains('$')
                && !name_text.text.chars().all(|c| kebab(c) || c.is_ascii_uppercase())
            || plain.contains(' ')
        {
            self.mistake(
                format!("`{}` is not in kebab case", name_text.text),
                name.node.span,
                "write words in lower case, with `-` between them",
            );
        }
        let (from_texts, to_texts) = (self.texts(&from.node), self.texts(&to.node));
        if matches!(&from.node.value, Value::List(items) if items.is_empty()) {
            self.mistake("the rule has no left side", from.node.span, "write `from: \"(op …)\"`");
        } else if from_texts.len() != to_texts.len() {
            let diagnostic = Diagnostic::new(format!(
                "{} left side(s), {} right side(s)",
                from_texts.len(),
                to_texts.len()
            ))
            .label(self.source, to.node.span, "")
            .label(self.source, from.node.span, "")
            .help("each left side equals the right side in the same position");
            self.say(diagnostic);
        }
        let when = fields
            .iter()
            .find(|field| field.key == "when")
            .map(|field| self.texts(&field.node))
            .unwrap_or_default();
        let mut lets = Vec::new();
        if let Some(field) = fields.iter().find(|field| field.key == "let") {
            match &field.node.value {
                Value::Map(entries) => {
                    for entry in entries {
                        match &entry.node.value {
                            Value::Str(text) => lets.push((entry, text)),
                            _ => self.mistake(
                                "a computed attribute is text in quotes",
                                entry.node.span,
                                format!("write `{}: \"…\"`", entry.key),
                            ),
                        }
                    }
                }
                _ => self.mistake("`let` is a map", field.node.span, "write `let: { k: \"…\" }`"),
            }
        }
        let precision = self.precision(fields);
        Some(Parts { name: name_text, from: from_texts, to: to_texts, when, lets, precision })
    }

    /// What the rule rounds to.
    fn precision(&mut self, fields: &[Field]) -> Precision {
        let Some(field) = fields.iter().find(|field| field.key == "precision") else {
            return Precision::default();
        };
        let named = match &field.node.value {
            Value::Str(text) => Precision::find(&text.text),
            _ => None,
        };
        if named.is_none() {
            let names = Precision::ALL.map(|one| format!("`\"{one}\"`"));
            self.mistake(
                "there is no such precision",
                field.node.span,
                format!("there are {}: all but the first are of rules that round", names.join(", ")),
            );
        }
        named.unwrap_or_default()
    }

    /// A string, or a list of strings.
    fn texts<'n>(&mut self, node: &'n Node) -> Vec<&'n Text> {
        match &node.value {
            Value::Str(text) => vec![text],
            Value::List(items) => items
                .iter()
                .filter_map(|item| match &item.value {
                    Value::Str(text) => Some(text),
                    _ => {
                        self.mistake(
                            "text in quotes is expected here",
                            item.span,
                            "put it in quotes: patterns and guards are text",
                        );
                        None
                    }
                })
                .collect(),
            _ => {
                self.mistake(
                    "text in quotes, or a list of it, is expected here",
                    node.span,
                    "write `\"…\"`, or `[\"…\", \"…\"]`",
                );
                Vec::new()
            }
        }
    }

    /// The rows of `for-each`: a map of lists is their product, a list of maps is taken as it is.
    pub(super) fn for_each(&mut self, fields: &[Field]) -> Vec<Vec<(String, String)>> {
        let Some(field) = fields.iter().find(|field| field.key == "for-each") else {
            return vec![Vec::new()];
        };
        match &field.node.value {
            Value::Map(entries) => {
                let mut rows: Vec<Vec<(String, String)>> = vec![Vec::new()];
                for entry in entries {
                    let Value::List(items) = &entry.node.value else {
                        self.mistake(
                            "a list of values is expected here",
                            entry.node.span,
                            format!(
                                "write `{}: [\"…\", \"…\"]`: there is a rule for each of them",
                                entry.key
                            ),
                        );
                        continue;
                    };
                    if items.is_empty() {
                        self.mistake(
                            format!("`{}` has no values, so that there is no rule", entry.key),
                            entry.node.span,
                            format!("write `{}: [\"…\"]`, or take the rule away", entry.key),
                        );
                    }
                    let values: Vec<String> = items.iter().filter_map(|item| self.scalar(item)).collect();
                    rows = rows
                        .iter()
                        .flat_map(|row| {
                            values.iter().map(|value| {
                                let mut row = row.clone();
                                row.push((entry.key.clone(), value.clone()));
                                row
                            })
                        })
                        .collect();
                }
                rows
            }
            Value::List(items) if items.is_empty() => {
                self.mistake(
                    "`for-each` has no rows, so that there is no rule",
                    field.node.span,
                    "write `[{ op: \"…\" }]`, or take the rule away",
                );
                Vec::new()
            }
            Value::List(items) => items
                .iter()
                .filter_map(|item| match &item.value {
                    Value::Map(entries) => Some(
                        entries
                            .iter()
                            .filter_map(|entry| Some((entry.key.clone(), self.scalar(&entry.node)?)))
                            .collect(),
                    ),
                    _ => {
                        self.mistake("a row of `for-each` is a map", item.span, "write `{ l: \"…\" }`");
                        None
                    }
                })
                .collect(),
            _ => {
                self.mistake(
                    "`for-each` is a map of lists, or a list of maps",
                    field.node.span,
                    "write `{ op: [\"…\", \"…\"] }`, or `[{ op: \"…\" }, { op: \"…\" }]`",
                );
                Vec::new()
            }
        }
    }

    pub(in crate::rule) fn scalar(&mut self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Str(text) => Some(text.text.clone()),
            Value::Number(value) => Some(value.to_string()),
            _ => {
                self.mistake(
                    "text in quotes or a number is expected here",
                    node.span,
                    "a value is put into text in place of its `$key`: put it in quotes",
                );
                None
            }
        }
    }
}

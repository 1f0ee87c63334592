//! The syntax of a rule in a file: its fields, and the rows of `for_each`.

use super::Reader;
use super::row::{Functions, Row, Rows, Scalar};
use crate::attr::{Float, Step};
use crate::diagnostic::{Diagnostic, Span, suggestion};
use crate::ron::{Entries, OneOrMany, Spanned, Text};
use crate::rule::{Places, example};
use crate::scalar::Function;
use serde::de::IgnoredAny;

/// A rule as it is written, before `for_each` is expanded.
#[derive(serde::Deserialize)]
#[serde(rename = "Rule")]
pub(super) struct Form {
    pub name: Text,
    pub from: Spanned<OneOrMany<Text>>,
    pub to: Spanned<OneOrMany<Text>>,
    #[serde(default)]
    pub when: OneOrMany<Text>,
    /// The computed attributes: names and expressions.
    #[serde(default, rename = "let")]
    pub lets: Entries<Text, Text>,
    #[serde(default)]
    pub for_each: Option<Spanned<Rows>>,
    #[serde(default)]
    pub for_functions: Option<Spanned<Functions>>,
    #[serde(default)]
    pub precision: Option<Text>,
    #[serde(default)]
    pub assume: OneOrMany<Text>,
    /// The field for examples in old files, where it is an error.
    #[serde(default)]
    pub examples: Option<Spanned<IgnoredAny>>,
}

impl Form {
    pub(crate) fn places(&self) -> Places {
        let all = |texts: &OneOrMany<Text>| texts.0.iter().map(Text::whole).collect();
        Places {
            name: self.name.whole(),
            from: all(&self.from),
            to: all(&self.to),
            when: all(&self.when),
            lets: self.lets.0.iter().map(|(_, text)| text.whole()).collect(),
            variables: Vec::new(),
        }
    }

    /// Returns the values of `for_each` with their positions.
    pub(super) fn values(&self) -> Vec<(String, Span)> {
        let one = |value: &Scalar| (value.text.clone(), value.span);
        match self.for_each.as_ref().map(|rows| &rows.value) {
            None => Vec::new(),
            Some(Rows::Product(entries)) => {
                entries.iter().flat_map(|(_, values)| values.iter().map(one)).collect()
            }
            Some(Rows::Listed(rows)) => {
                rows.iter().flat_map(|row| row.0.iter().map(|(_, value)| one(value))).collect()
            }
        }
    }
}

impl Reader<'_> {
    /// Checks what the types of the fields do not express.
    pub(super) fn check(&mut self, form: &Form) {
        if let Some(examples) = &form.examples {
            let help = format!(
                "write `Examples(rule: \"{}\", examples: […])` into the list in {}",
                form.name.text,
                example::beside(self.file)
            );
            self.mistake("examples stand in a file beside the rules", examples.span, help);
        }
        let name = &form.name.text;
        let kebab = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '$';
        // The value of `$key` may be anything that a name may contain. Upper-case letters occur in layouts.
        if name.is_empty() || !name.contains('$') && !name.chars().all(kebab) || name.contains(' ') {
            self.mistake(
                format!("`{name}` is not in kebab case"),
                form.name.value_span(),
                "write words in lower case, with `-` between them",
            );
        }
        let (from, to) = (form.from.0.len(), form.to.0.len());
        if from == 0 {
            self.mistake("the rule has no left side", form.from.span, "write `from: \"(op …)\"`");
        } else if from != to {
            let diagnostic = Diagnostic::new(format!("{from} left side(s), {to} right side(s)"))
                .label(self.source, form.to.span, "")
                .label(self.source, form.from.span, "")
                .help("each left side equals the right side in the same position");
            self.say(diagnostic);
        }
    }

    /// Returns the rows of `for_each` or of `for_functions`. If there is neither, returns one row without values.
    /// `used` gets the keys that values of other keys name.
    pub(super) fn rows(&mut self, form: &Form, used: &mut Vec<String>) -> Vec<Row> {
        let mut rows = self.written_rows(form);
        let span = form.for_each.as_ref().map(|rows| rows.span).unwrap_or_default();
        for row in &mut rows {
            if let Err((key, name)) = nest(row, used) {
                let help = "a value may name the keys that stand before its own";
                self.mistake(format!("`${name}` in the value of `{key}` is no key before it"), span, help);
                break;
            }
        }
        rows
    }

    fn written_rows(&mut self, form: &Form) -> Vec<Row> {
        if let Some(functions) = &form.for_functions {
            return self.function_rows(form, functions);
        }
        let Some(rows) = &form.for_each else { return vec![Row::new()] };
        match &rows.value {
            Rows::Product(entries) => {
                let mut product = vec![Row::new()];
                for (key, values) in entries {
                    if values.is_empty() {
                        self.mistake(
                            format!("`{}` has no values, so that there is no rule", key.text),
                            values.span,
                            format!("write `\"{}\": [\"…\"]`, or remove the rule", key.text),
                        );
                    }
                    self.each_value_once(&key.text, values);
                    let with = |row: &Row, value: &Scalar| {
                        row.iter().cloned().chain([(key.text.clone(), value.text.clone())]).collect()
                    };
                    product = product
                        .iter()
                        .flat_map(|row| values.iter().map(move |value| with(row, value)))
                        .collect();
                }
                product
            }
            Rows::Listed(rows) if rows.is_empty() => {
                let span: Span = form.for_each.as_ref().map(|rows| rows.span).unwrap_or_default();
                let help = "write `[{\"op\": \"…\"}]`, or remove the rule";
                self.mistake("`for_each` has no rows, so that there is no rule", span, help);
                Vec::new()
            }
            Rows::Listed(rows) => {
                self.alike(rows);
                let row = |row: &Spanned<Entries<Text, Scalar>>| {
                    row.0.iter().map(|(key, value)| (key.text.clone(), value.text.clone())).collect()
                };
                rows.iter().map(row).collect()
            }
        }
    }

    /// Reports each value of a key that stands twice: it would make the same rule again.
    fn each_value_once(&mut self, key: &str, values: &[Scalar]) {
        for (at, value) in values.iter().enumerate() {
            if let Some(first) = values[..at].iter().find(|first| first.text == value.text) {
                let diagnostic = Diagnostic::new(format!("`{}` stands twice in `{key}`", value.text))
                    .label(self.source, value.span, "here again")
                    .label(self.source, first.span, "first here")
                    .help("take one of them away: each value makes a rule");
                self.say(diagnostic);
            }
        }
    }

    /// Reports rows that have not the keys of all others, and rows that stand twice.
    fn alike(&mut self, rows: &[Spanned<Entries<Text, Scalar>>]) {
        let has = |row: &Entries<Text, Scalar>, key: &str| row.0.iter().any(|(known, _)| known.text == key);
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in rows.iter().flat_map(|row| &row.0) {
            if !keys.contains(&key.text.as_str()) {
                keys.push(&key.text);
            }
        }
        for (at, row) in rows.iter().enumerate() {
            for key in keys.iter().filter(|key| !has(row, key)) {
                self.mistake(
                    format!("row {} of `for_each` lacks `{key}`", at + 1),
                    row.span,
                    format!("add `\"{key}\": \"…\"` to it: all rows have the same keys"),
                );
            }
            let same = |other: &&Spanned<Entries<Text, Scalar>>| {
                let texts = |row: &Entries<Text, Scalar>| -> Row {
                    row.0.iter().map(|(key, value)| (key.text.clone(), value.text.clone())).collect()
                };
                texts(other) == texts(row)
            };
            if let Some(first) = rows[..at].iter().find(same) {
                let diagnostic = Diagnostic::new(format!("row {} of `for_each` stands twice", at + 1))
                    .label(self.source, row.span, "here again")
                    .label(self.source, first.span, "first here")
                    .help("take one of them away: each row makes a rule");
                self.say(diagnostic);
            }
        }
    }

    /// Returns a row for each function of the kind that is wanted, except for those that are excluded.
    fn function_rows(&mut self, form: &Form, functions: &Spanned<Functions>) -> Vec<Row> {
        let wanted = |function: &Function| {
            function.operands() == functions.operands
                && function.is_step()
                && functions.commutative.is_none_or(|wanted| wanted == function.commutative())
                && functions.parameters.is_none_or(|wanted| wanted != function.parameters().is_empty())
        };
        let known: Vec<Function> = self.vocabulary.ops.functions().filter(wanted).collect();
        let names: Vec<&str> = known.iter().map(|function| function.name()).collect();
        for left_out in &functions.except {
            if !names.contains(&left_out.as_str()) {
                let message = format!("there is no function `{left_out}`");
                let help = match suggestion(left_out, names.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("the functions are {}", names.join(", ")),
                };
                self.mistake(message, left_out.span, help);
            }
        }
        if let Some(rows) = &form.for_each {
            let help = "keep one of them";
            self.mistake("the rule has `for_each` and `for_functions`", rows.span, help);
        }
        let taken =
            |function: &&Function| !functions.except.iter().any(|name| *name.value == *function.name());
        known.iter().filter(taken).map(|function| row_of(*function)).collect()
    }
}

/// Replaces each `$key` in the values of a row by the value of that key, which stands before. The error is the key
/// whose value names another one that does not, and that name.
fn nest(row: &mut Row, used: &mut Vec<String>) -> Result<(), (String, String)> {
    for at in 0..row.len() {
        let (before, rest) = row.split_at_mut(at);
        let (key, value) = &mut rest[0];
        if !value.contains('$') {
            continue;
        }
        let mut parts = value.split('$');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, tail) = part.split_at(end);
            let Some((_, value)) = before.iter().find(|(known, _)| known == name) else {
                return Err((key.clone(), name.to_owned()));
            };
            used.push(name.to_owned());
            filled += value;
            filled += tail;
        }
        *value = filled;
    }
    Ok(())
}

/// Returns the values of the keys for a function.
fn row_of(function: Function) -> Row {
    let names: Vec<&str> = function.parameters().iter().map(|one| one.name).collect();
    let list = |text: &dyn Fn(&str) -> String| names.iter().map(|name| text(name)).collect::<Vec<_>>();
    let attributes = match list(&|name| format!("{name}: ?{name}")) {
        none if none.is_empty() => String::new(),
        some => format!(" {{{}}}", some.join(", ")),
    };
    let step = Step {
        op: function.into(),
        parameters: function.parameters().iter().map(|one| Float(one.default)).collect(),
    };
    let row = [
        (if function.operands() == 1 { "op" } else { "binary" }, function.name().to_owned()),
        ("attributes", attributes),
        ("arguments", list(&|name| format!(", ?{name}")).concat()),
        ("step", step.to_string()),
    ];
    row.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

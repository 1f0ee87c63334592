//! The form of a rule in a file: its fields, and the rows of `for_each`.

use super::Reader;
use super::example::Draft;
use super::row::{Row, Rows, Scalar};
use crate::error::{Diagnostic, Span};
use crate::ron::{Entries, OneOrMany, Spanned, Text};
use crate::rule::Places;

/// A rule as it is written, before `for_each` is written out.
#[derive(serde::Deserialize)]
#[serde(rename = "Rule")]
pub(super) struct Form {
    pub name: Text,
    pub from: Spanned<OneOrMany<Text>>,
    pub to: Spanned<OneOrMany<Text>>,
    #[serde(default)]
    pub when: OneOrMany<Text>,
    /// Computed attributes: names and expressions.
    #[serde(default, rename = "let")]
    pub lets: Entries<Text, Text>,
    #[serde(default)]
    pub for_each: Option<Spanned<Rows>>,
    #[serde(default)]
    pub precision: Option<Text>,
    #[serde(default)]
    pub examples: Vec<Draft>,
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
}

impl Reader<'_> {
    /// What the fields must be beside their types.
    pub(super) fn check(&mut self, form: &Form) {
        let name = &form.name.text;
        let kebab = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '$';
        // What stands for `$key` may be anything that a name may hold; capitals are those of layouts.
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

    /// The rows of `for_each`; one without values where there is none.
    pub(super) fn rows(&mut self, form: &Form) -> Vec<Row> {
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
                    let with = |row: &Row, value: &Scalar| {
                        row.iter().cloned().chain([(key.text.clone(), value.0.clone())]).collect()
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
                let row = |row: &Entries<Text, Scalar>| {
                    row.0.iter().map(|(key, value)| (key.text.clone(), value.0.clone())).collect()
                };
                rows.iter().map(row).collect()
            }
        }
    }
}

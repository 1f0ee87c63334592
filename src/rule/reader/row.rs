//! The rows of `for_each` and `for_functions`: the values that replace each `$key`.

use crate::diagnostic::Span;
use crate::ron::{Entries, Raw, Spanned, Text};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The value of each name, in one row.
pub(super) type Row = Vec<(String, String)>;

/// The content of `for_functions`. The rule applies to every function of one number, including those of tables other
/// than ovolo's; with `operands: 2`, to every function of two numbers that may be a step. `$op` is the function; of
/// two numbers it is `$binary`. `$attributes` binds its parameters, as in `{alpha: ?alpha}`, and `$arguments` passes
/// them on, as in `, ?alpha`. `$step` is the step with default parameters for examples, such as `elu(1.0)`.
#[derive(serde::Deserialize)]
pub(super) struct Functions {
    /// The number of operands, 1 or 2.
    #[serde(default = "one")]
    pub operands: usize,
    /// Whether the rule is only for functions whose operands may be swapped, or only for the others.
    #[serde(default)]
    pub commutative: Option<bool>,
    /// Whether the rule is only for functions with parameters, or only for those without.
    #[serde(default)]
    pub parameters: Option<bool>,
    /// The functions to which the rule does not apply.
    #[serde(default)]
    pub except: Vec<Spanned<String>>,
}

fn one() -> usize {
    1
}

/// The content of `for_each`.
pub(super) enum Rows {
    /// `{"key": [value, …], …}`: a row for each combination of values.
    Product(Vec<(Text, Spanned<Vec<Scalar>>)>),
    /// `[{"key": value, …}, …]`: a list of rows.
    Listed(Vec<Spanned<Entries<Text, Scalar>>>),
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a map of lists, or a list of maps\n\
                     write `{\"op\": [\"…\", \"…\"]}`, or `[{\"op\": \"…\"}, {\"op\": \"…\"}]`",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rows, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Rows::Product(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Rows, A::Error> {
                let mut rows = Vec::new();
                while let Some(row) = items.next_element()? {
                    rows.push(row);
                }
                Ok(Rows::Listed(rows))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// The value of a `$key`, which is a text or a number.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub text: String,
    pub span: Span,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let number = || raw.number().filter(|number| number.is_finite()).map(|number| number.to_string());
        let text = Text::parse(raw).map(|text| text.text).or_else(number);
        text.map(|text| Self { text, span: raw.span() }).ok_or_else(|| {
            D::Error::custom(
                "must be text in quotes, or a finite number\nit is put into texts in place of its `$key`",
            )
        })
    }
}

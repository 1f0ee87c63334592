//! The rows of `for_each` and `for_functions`: what is put in the place of each `$key`.

use crate::ron::{Entries, Raw, Spanned, Text};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The value of each name, in one row.
pub(super) type Row = Vec<(String, String)>;

/// What `for_functions` holds: the rule is for every function of one number, those of other tables than ovolo's too.
/// `$op` is the function; `$attributes` binds its parameters, ` {alpha: ?alpha}`, and `$arguments` hands them on,
/// `, ?alpha`; `$step` is the step with the defaults of its parameters, `elu(1.0)`, for examples.
#[derive(serde::Deserialize)]
pub(super) struct Functions {
    /// Functions that it is not for.
    #[serde(default)]
    pub except: Vec<Spanned<String>>,
}

/// What `for_each` holds.
pub(super) enum Rows {
    /// `{"key": [value, …], …}`: there is a row for each choice of values.
    Product(Vec<(Text, Spanned<Vec<Scalar>>)>),
    /// `[{"key": value, …}, …]`: the rows themselves.
    Listed(Vec<Entries<Text, Scalar>>),
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

/// What is put into texts in place of a `$key`: a text, or a number.
#[derive(Clone, Debug)]
pub(super) struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let number = || raw.number().filter(|number| number.is_finite()).map(|number| number.to_string());
        let text = Text::of(raw).map(|text| text.text).or_else(number);
        text.map(Self).ok_or_else(|| {
            D::Error::custom(
                "must be text in quotes, or a finite number\nit is put into texts in place of its `$key`",
            )
        })
    }
}

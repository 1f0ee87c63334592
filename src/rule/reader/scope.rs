//! What names of variables stand for.

use super::Reader;
use crate::rule::ron::Text;
use std::ops::Range;

/// Names of variables, and what they are.
#[derive(Default)]
pub(super) struct Scope {
    pub operands: Vec<String>,
    pub rests: Vec<String>,
    pub attrs: Vec<String>,
    pub rest_attrs: Vec<String>,
    pub used: Vec<String>,
}

/// The index of a name, which is added where it is new.
pub(super) fn index(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

impl Reader<'_> {
    /// An error where a name stands for two kinds of things.
    pub(super) fn one_kind(
        &mut self,
        text: &Text,
        name: &str,
        range: &Range<usize>,
        a: &[String],
        b: &[String],
        what: &str,
    ) -> Option<()> {
        if a.iter().chain(b).any(|other| other == name) {
            self.mistake(
                format!("`?{name}` is {what} here and something else elsewhere"),
                text.span(range.clone()),
            );
            return None;
        }
        Some(())
    }
}

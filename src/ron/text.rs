//! Texts in their own language, such as patterns, with the position of each byte in the file.

use super::Raw;
use crate::diagnostic::Span;
use serde::de::{Deserialize, Deserializer, Error};
use std::ops::Range;

/// A text in quotes, with the position of each byte in the file.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The text, with escapes replaced.
    pub text: String,
    places: Vec<usize>,
    end: usize,
    span: Span,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        Self::parse(raw).ok_or_else(|| D::Error::custom("must be text in quotes\nwrite `\"…\"`"))
    }
}

impl Text {
    /// Returns the text of a value; `None` if the value is not a text.
    pub fn parse(raw: Raw<'_>) -> Option<Self> {
        if !raw.is_text() {
            return None;
        }
        let written = raw.text();
        let hashes = written.len() - written.trim_end_matches('#').len();
        let quote = written.find('"')?;
        let body = quote + 1..written.len() - hashes - 1;
        let span = raw.span();
        let end = span.start + body.end;
        let (start, body) = (span.start + body.start, &written[body]);
        // Most texts have no escapes, and are read as they are written.
        if written.starts_with('r') || !body.contains('\\') {
            return Some(Self { text: body.to_owned(), places: (start..end).collect(), end, span });
        }
        let text: String = ::ron::from_str(written).ok()?;
        let places = places(body, &text, start);
        Some(Self { text, places, end, span })
    }

    /// Returns the position of the value, including the quotes.
    pub fn value_span(&self) -> Span {
        self.span
    }

    /// Returns the position of the whole text, without the quotes.
    pub(crate) fn whole(&self) -> Span {
        self.span(0..self.text.len())
    }

    /// Returns the position of a range of the text in the file.
    pub(crate) fn span(&self, range: Range<usize>) -> Span {
        let start = self.places.get(range.start).copied().unwrap_or(self.end);
        let end = match range.end.checked_sub(1).and_then(|last| self.places.get(last)) {
            Some(last) if range.end > range.start => last + 1,
            _ => start,
        };
        Span::new(start, end.max(start))
    }

    /// Replaces every `$name` by its value. The value gets the position of the name. Adds the names that occur to
    /// `used`.
    ///
    /// # Errors
    /// A name without a value, with its position.
    pub(crate) fn replace(
        &self,
        values: &[(String, String)],
        used: &mut Vec<String>,
    ) -> Result<Self, (String, Span)> {
        let mut result = Self { end: self.end, span: self.span, ..Self::default() };
        let copy = |range: Range<usize>, result: &mut Self| {
            result.text.push_str(&self.text[range.clone()]);
            result.places.extend_from_slice(&self.places[range]);
        };
        let mut done = 0;
        while let Some(at) = self.text[done..].find('$').map(|at| done + at) {
            copy(done..at, &mut result);
            let tail = &self.text[at + 1..];
            let length = tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
            let name = &tail[..length];
            let Some((_, value)) = values.iter().find(|(known, _)| known == name) else {
                return Err((name.to_owned(), self.span(at..at + 1 + length)));
            };
            used.push(name.to_owned());
            result.text.push_str(value);
            result.places.extend(std::iter::repeat_n(self.places[at], value.len()));
            done = at + 1 + length;
        }
        copy(done..self.text.len(), &mut result);
        Ok(result)
    }
}

/// Returns the position of each byte of a text that is written, with escapes, from `start` on.
fn places(written: &str, text: &str, start: usize) -> Vec<usize> {
    let mut places = Vec::with_capacity(text.len());
    let (mut at, mut characters) = (0, text.chars());
    while at < written.len() {
        let rest = &written[at..];
        let length = escape(rest);
        // An escaped line break adds no character to the text.
        if !rest.starts_with("\\\n") && !rest.starts_with("\\\r\n") {
            let bytes = characters.next().map_or(0, char::len_utf8);
            let here = start + at;
            // Each byte of an unescaped character has its own position; all bytes of an escape have the position of
            // the escape.
            match rest.starts_with('\\') {
                true => places.extend(std::iter::repeat_n(here, bytes)),
                false => places.extend(here..here + bytes),
            }
        }
        at += length;
    }
    places
}

/// Returns the length of the first character or escape of a text in quotes.
fn escape(rest: &str) -> usize {
    let mut characters = rest.chars();
    let first = characters.next().map_or(1, char::len_utf8);
    if !rest.starts_with('\\') {
        return first;
    }
    match characters.next() {
        Some('x') => 4.min(rest.len()),
        Some('u') => rest.find('}').map_or(rest.len(), |end| end + 1),
        Some('\n' | '\r') => rest.len() - rest[1..].trim_start_matches([' ', '\t', '\n', '\r']).len(),
        Some(other) => 1 + other.len_utf8(),
        None => 1,
    }
}

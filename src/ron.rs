//! RON with positions. The crate `ron` reads files into any type that derives [`Deserialize`], and every mistake is
//! reported with its position.
//!
//! The crate alone loses positions and stops at the first mistake. This layer keeps positions and continues. It
//! relies on one property of the crate: a `&RawValue` borrows its slice of the text, so its address gives its
//! position. [`Raw`] is such a slice, and [`Reader::read`] turns it into a value. The author of a format needs only
//! the following:
//!
//! - a struct with `#[derive(Deserialize)]`; unknown, missing and repeated fields are reported by this layer;
//! - [`Spanned`] around a value that is checked later, so that the check can report its position;
//! - [`Text`] for a string in its own language, such as a pattern: the position of every byte is known;
//! - [`Raw`] for a value that is read later or may have several types, and `OneOrMany` for `x` or `[x, y]`;
//! - [`Entries`] for a map in the order in which it is written.
//!
//! A value that cannot be read is reported, and the value that contains it is read again without it. In this way all
//! mistakes of a file are found in one run, in the order of their positions, although the code that reads a value
//! only returns the first one.
//!
//! An error of [`serde::de::Error::custom`] is reported at the value that caused it. If its message begins with
//! `must `, the name of the field is put before it. The lines after the first become the advice:
//! `custom("must be at least 2\nwrite 2 or more")`.

mod deserializer;
mod fields;
mod format;
pub(crate) mod lexer;
mod mistake;
mod syntax;
mod text;
mod value;

pub(crate) use fields::fields_of;
pub(crate) use format::flat;
pub use format::{Style, format, lines, statements};
pub use text::Text;
pub use value::Entries;
pub(crate) use value::OneOrMany;
pub use value::Spanned;
pub(crate) use value::at_least;

use crate::diagnostic::{Diagnostic, Diagnostics, Span, suggestion};
use ::ron::value::RawValue;
use deserializer::Session;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// An unread value in a text.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    /// The whole text.
    document: &'a str,
    /// The position where the blanks and comments before the value begin.
    lead: usize,
    span: Span,
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The parts of a value.
pub(crate) enum Shape<'a> {
    /// `Name(key: value, …)` or `(key: value, …)`, possibly without fields.
    Struct(Vec<Field<'a>>),
    /// `Name(value, …)` or `(value, …)`.
    Tuple(Vec<Raw<'a>>),
    /// `[value, …]`.
    List(Vec<Raw<'a>>),
    /// `{key: value, …}`.
    Map(Vec<(Raw<'a>, Raw<'a>)>),
    /// A text, a number, or a name without parentheses.
    Leaf,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// The name.
    pub key: &'a str,
    /// The position of the name.
    pub key_span: Span,
    /// The value.
    pub value: Raw<'a>,
}

impl<'a> Raw<'a> {
    /// Returns the value in a slice of a document, which may have blanks and comments around it.
    fn new(document: &'a str, slice: &'a str) -> Self {
        let lead = offset(document, slice);
        // Most values have no comments around them, and then they need not be divided into tokens.
        if !slice.contains('/') {
            let start = slice.len() - slice.trim_start().len();
            let end = slice.trim_end().len().max(start);
            return Self { document, lead, span: Span::new(start, end).shifted(lead) };
        }
        let mut tokens = lexer::tokens(slice).filter(|token| token.kind != lexer::Kind::Comment);
        let first = tokens.next().map_or(Span::at(slice.len()), |token| token.span);
        let last = tokens.last().map_or(first, |token| token.span);
        Self { document, lead, span: first.to(last).shifted(lead) }
    }

    /// Returns the text of the value, without blanks and comments around it.
    pub(crate) fn text(&self) -> &'a str {
        self.span.slice(self.document)
    }

    /// Returns the position of the value.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the name before the parentheses of a struct or tuple.
    pub fn name(&self) -> Option<&'a str> {
        let mut tokens = lexer::tokens(self.text()).filter(|token| token.kind != lexer::Kind::Comment);
        let name = tokens.next().filter(|token| token.kind == lexer::Kind::Word)?;
        tokens.next().filter(|token| token.kind == lexer::Kind::Open)?;
        Some(name.span.slice(self.text()))
    }

    /// Returns the position of the name before the parentheses. For other values this is the whole value.
    pub fn head(&self) -> Span {
        match self.name() {
            Some(name) => Span::new(self.span.start, self.span.start + name.len()),
            None if self.text().starts_with('(') => Span::new(self.span.start, self.span.start + 1),
            None => self.span,
        }
    }

    /// Returns the value of a field, if this is a struct that has the field.
    pub fn field(&self, key: &str) -> Option<Raw<'a>> {
        match self.shape() {
            Ok(Shape::Struct(fields)) => {
                fields.iter().find(|field| field.key == key).map(|field| field.value)
            }
            _ => None,
        }
    }

    /// Returns whether this is a struct with an unknown field whose name is probably a misspelling of `key`.
    pub(crate) fn meant(&self, key: &str, known: &[&str]) -> bool {
        let meant = |field: &Field<'_>| {
            !known.contains(&field.key) && suggestion(field.key, known.iter().copied()) == Some(key)
        };
        matches!(self.shape(), Ok(Shape::Struct(fields)) if fields.iter().any(meant))
    }

    /// Returns whether this is a text in quotes.
    pub(crate) fn is_text(&self) -> bool {
        let text = self.text();
        text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#")
    }

    /// Returns whether this is an empty text, list, map or struct.
    pub fn is_empty(&self) -> bool {
        match self.shape() {
            Ok(Shape::Struct(fields)) => fields.is_empty(),
            Ok(Shape::List(items) | Shape::Tuple(items)) => items.is_empty(),
            Ok(Shape::Map(entries)) => entries.is_empty(),
            _ => Text::parse(*self).is_some_and(|text| text.text.is_empty()),
        }
    }

    /// Returns the value as a number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        ::ron::from_str(self.text()).ok()
    }

    /// Returns the line where the value begins, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.document[..self.span.start].matches('\n').count() + 1
    }

    /// Returns the comment lines directly above the value, without slashes, joined by spaces; empty if there are
    /// none.
    pub(crate) fn comment(&self) -> String {
        let mut lines: Vec<&str> =
            self.document[self.lead..self.span.start].split('\n').map(str::trim).collect();
        // Remove the line of the value itself, and a comment at the end of the previous line, which belongs to that
        // line.
        lines.pop();
        let line = self.document[..self.lead].rsplit('\n').next().unwrap_or_default();
        if !line.trim().is_empty() {
            lines.drain(..lines.len().min(1));
        }
        let above = lines.iter().rev().take_while(|line| line.starts_with("//")).count();
        let above = lines[lines.len() - above..].iter().map(|line| line.trim_start_matches('/').trim());
        above.collect::<Vec<_>>().join(" ")
    }

    /// Returns whether there is a blank line between the previous value and this one.
    pub(crate) fn follows_a_gap(&self) -> bool {
        let before = self.document[..self.lead].trim_end();
        let lines: Vec<&str> = self.document[before.len()..self.span.start].split('\n').collect();
        lines.len() > 2 && lines[1..lines.len() - 1].iter().any(|line| line.trim().is_empty())
    }

    /// Returns the parts of the value.
    ///
    /// # Errors
    /// If it is a struct or list whose parts the crate `ron` cannot read.
    fn shape(&self) -> Result<Shape<'a>, ::ron::error::SpannedError> {
        let text = self.text();
        let raw = |slice: &&'a RawValue| Raw::new(self.document, slice.get_ron());
        let mut reader = ::ron::Deserializer::from_str(text)?;
        let shape = match text.as_bytes().first() {
            Some(b'[') => Vec::<&RawValue>::deserialize(&mut reader)
                .map(|items| Shape::List(items.iter().map(raw).collect())),
            Some(b'{') => Entries::<&RawValue, &RawValue>::deserialize(&mut reader)
                .map(|map| Shape::Map(map.0.iter().map(|(key, value)| (raw(key), raw(value))).collect())),
            _ if self.name().is_some() || text.starts_with('(') => {
                reader.deserialize_any(Parts).map(|parts| match parts {
                    PartsOf::Fields(fields) => {
                        Shape::Struct(fields.iter().map(|(key, value)| self.field_of(key, value)).collect())
                    }
                    PartsOf::Items(items) if items.is_empty() => Shape::Struct(Vec::new()),
                    PartsOf::Items(items) => Shape::Tuple(items.iter().map(raw).collect()),
                })
            }
            _ => return Ok(Shape::Leaf),
        };
        shape.map_err(|code| reader.span_error(code))
    }

    fn field_of(&self, key: &'a str, value: &'a RawValue) -> Field<'a> {
        let start = offset(self.document, key);
        let value = Raw::new(self.document, value.get_ron());
        Field { key, key_span: Span::new(start, start + key.len()), value }
    }
}

/// A reader for the values of one text. It adds mistakes to the diagnostics.
pub struct Reader<'f> {
    found: &'f mut Diagnostics,
    source: usize,
    /// A line that is added to every message, such as the name of the rule.
    note: Option<String>,
}

impl<'f> Reader<'f> {
    /// Returns a reader for the text with the index `source` in the diagnostics.
    pub fn new(found: &'f mut Diagnostics, source: usize) -> Self {
        Self { found, source, note: None }
    }

    /// Returns the diagnostics, to which further mistakes are added.
    pub fn found(&mut self) -> &mut Diagnostics {
        self.found
    }

    /// Sets a line that is added to every message from now on.
    pub(crate) fn note(&mut self, note: Option<String>) {
        self.note = note;
    }

    /// Adds a mistake, which may have several positions.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(match &self.note {
            Some(note) => diagnostic.note(note),
            None => diagnostic,
        });
    }

    /// Adds a mistake that other code found, with its position in this text.
    pub(crate) fn push_at(&mut self, diagnostic: Diagnostic, span: Span) {
        self.push(diagnostic.label(self.source, span, ""));
    }

    /// Adds a mistake: the message, the position and the advice.
    pub fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        self.push(Diagnostic::new(message).label(self.source, span, "").help(help));
    }

    /// Adds a mistake that also refers to another position.
    pub(crate) fn mistake_beside(
        &mut self,
        message: impl Into<String>,
        span: Span,
        other: Option<(Span, &str)>,
        help: impl AsRef<str>,
    ) {
        let diagnostic = Diagnostic::new(message).label(self.source, span, "").help(help);
        self.push(match other {
            Some((span, text)) => diagnostic.label(self.source, span, text),
            None => diagnostic,
        });
    }

    /// Returns whether a name is known. Reports an unknown name, with the most similar name or all names.
    pub(crate) fn known(&mut self, what: &str, name: &Spanned<String>, known: &[&str]) -> bool {
        let found = known.contains(&name.as_str());
        if !found {
            self.mistake(format!("{what} `{name}` is not known"), name.span, advice(name, known));
        }
        found
    }

    /// Replaces field names such as `for-each` by `for_each`, as RON requires, and reports each of them. The rest of
    /// an old file can then be read, and its other mistakes are found too.
    pub(crate) fn mend<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let mut mended = Cow::Borrowed(text);
        for span in lexer::hyphenated(text) {
            let key = span.slice(text);
            let right = key.replace('-', "_");
            self.mistake(
                format!("`{key}` is written `{right}`"),
                span,
                "RON has no hyphens in names of fields",
            );
            mended.to_mut().replace_range(span.start..span.end, &right);
        }
        mended
    }

    /// Returns the single value of a text, and reports a text that is not RON.
    pub fn document<'a>(&mut self, text: &'a str) -> Option<Raw<'a>> {
        match RawValue::from_ron(text) {
            Ok(_) => Some(Raw::new(text, text)),
            Err(error) => {
                self.push(syntax::diagnostic(text, 0, &error, self.source));
                None
            }
        }
    }

    /// Returns the values of a list, including those after a mistake: if a value is not RON, reading continues at the
    /// next line that begins with `name(`. Returns `None` if the text is not a list.
    pub(crate) fn items<'a>(&mut self, text: &'a str, name: &str) -> Option<Vec<Raw<'a>>> {
        let token = |at: usize| {
            let mut tokens = lexer::tokens(&text[at..]).filter(|token| token.kind != lexer::Kind::Comment);
            tokens.next().map(|token| (token.span.shifted(at), token.span.shifted(at).slice(text)))
        };
        let (open, _) = token(0).filter(|(_, open)| *open == "[")?;
        let (mut items, mut at) = (Vec::new(), open.end);
        loop {
            if let Some((close, "]")) = token(at) {
                at = close.end;
                break;
            }
            let wrong = match syntax::value(text, at) {
                Ok(end) => {
                    let raw = Raw::new(text, &text[at..end]);
                    items.push(raw);
                    match token(end) {
                        Some((comma, ",")) => {
                            at = comma.end;
                            continue;
                        }
                        Some((_, "]")) => {
                            at = end;
                            continue;
                        }
                        _ => syntax::missing_comma(text, raw.span.end, self.source),
                    }
                }
                Err(error) => syntax::diagnostic(text, at, &error, self.source),
            };
            let place = wrong.labels.first().map_or(text.len(), |label| label.span.start);
            self.push(wrong);
            match lexer::next_line(text, place.max(at + 1), name) {
                Some(next) => at = next,
                None => return Some(items),
            }
        }
        if let Some((span, _)) = token(at) {
            self.mistake(
                "something follows the end of the list",
                span,
                "remove it, or move it into the list",
            );
        }
        Some(items)
    }

    /// Reads a value as a type. Every part that cannot be read is reported and left out; returns `None` if too little
    /// is left. So a result is only correct if nothing was reported.
    pub fn read<'de, T: Deserialize<'de>>(&mut self, raw: Raw<'de>) -> Option<T> {
        self.read_as(raw, false, &[])
    }

    /// As [`Reader::read`], for a struct whose name gives its kind and was already looked up, so that any name is
    /// accepted. `others` are fields that other code reads.
    pub fn settings<'de, T: Deserialize<'de>>(&mut self, raw: Raw<'de>, others: &[Raw<'_>]) -> Option<T> {
        self.read_as(raw, true, others)
    }

    fn read_as<'de, T: Deserialize<'de>>(
        &mut self,
        raw: Raw<'de>,
        named: bool,
        others: &[Raw<'_>],
    ) -> Option<T> {
        let session = Session::without(others);
        loop {
            match session.read(raw, named) {
                Ok(value) => return Some(value),
                Err(mistake) => {
                    let again = session.leave_out(&mistake, raw);
                    mistake
                        .into_diagnostic(self.source)
                        .into_iter()
                        .for_each(|diagnostic| self.push(diagnostic));
                    if !again {
                        return None;
                    }
                }
            }
        }
    }
}

/// Returns advice for an unknown name.
fn advice(name: &str, known: &[&str]) -> String {
    match suggestion(name, known.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => "none is known: remove it".to_owned(),
        None => format!("known are {}", known.join(", ")),
    }
}

/// Returns the position of a slice in its text.
fn offset(text: &str, slice: &str) -> usize {
    (slice.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// A visitor that collects the fields or values between the parentheses of a struct or tuple.
struct Parts;

enum PartsOf<'de> {
    Fields(Vec<(&'de str, &'de RawValue)>),
    Items(Vec<&'de RawValue>),
}

impl<'de> Visitor<'de> for Parts {
    type Value = PartsOf<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields or values in parentheses")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = map.next_entry()? {
            fields.push(entry);
        }
        Ok(PartsOf::Fields(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(PartsOf::Items(values))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(PartsOf::Items(Vec::new()))
    }

    /// `Some(value)`.
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|value| PartsOf::Items(vec![value]))
    }
}

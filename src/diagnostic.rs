//! Diagnostics: mistakes in texts, each with the place that it points at.
//!
//! A reader of text (rules, pipelines, graphs) gathers every mistake it finds as a [`Diagnostic`] with byte spans
//! and returns them all at once as [`Diagnostics`], which carries the texts that the spans point into, and so can
//! render itself anywhere.
//!
//! ```
//! use ovolo::error::{Diagnostic, Diagnostics, Span};
//! let mut found = Diagnostics::for_text("greeting.txt", "hello wrld");
//! found.push(Diagnostic::new("unknown word `wrld`").label(0, Span::new(6, 10), "not a word").help("did you mean `world`?"));
//! assert!(found.to_string().contains("^^^^ not a word"));
//! ```

mod excerpt;

use codespan_reporting::diagnostic as rendered;
use codespan_reporting::term::{self, termcolor};
use excerpt::{Excerpt, Excerpts};
use std::fmt;
use std::sync::Arc;

/// A half-open range of bytes in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

impl Span {
    /// Makes the span from the first byte to the one after the last.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Makes the empty span at a byte.
    pub const fn at(start: usize) -> Self {
        Self { start, end: start }
    }

    /// Returns the smallest span that covers both.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns the span in a longer text, in which this span's text begins at `offset`.
    pub(crate) const fn shifted(self, offset: usize) -> Self {
        Self { start: self.start + offset, end: self.end + offset }
    }

    /// Returns the part of the text that the span covers, which is empty if it covers none of it.
    pub fn slice(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A text that spans point into, with a name, which is usually a path. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name that messages use.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// Serialises as its text alone, since its name does not affect plans.
impl serde::Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Source {
    /// Makes a source from a name and a text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// One place that a diagnostic points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The index of the source in the [`Diagnostics`].
    pub source: usize,
    /// The place in that source.
    pub span: Span,
    /// The text beside the caret; may be empty.
    pub text: String,
}

/// One mistake in a text: a message, the places that it is about, and advice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one line without a final stop.
    pub message: String,
    /// The places: the first is that of the mistake, the others explain it.
    pub labels: Vec<Label>,
    /// Further lines below the text, `help: …` among them.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// Makes a diagnostic without places.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Adds a place. The first one is where the mistake is.
    #[must_use]
    pub fn label(mut self, source: usize, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { source, span, text: text.into() });
        self
    }

    /// Adds a line of explanation.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub fn help(self, text: impl AsRef<str>) -> Self {
        self.note(format!("help: {}", text.as_ref()))
    }

    /// Adds the advice of [`suggestion`], if there is any.
    #[must_use]
    pub fn suggest<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match suggestion(name, known) {
            Some(close) => self.help(format!("did you mean `{close}`?")),
            None => self,
        }
    }
}

/// Returns the known name that is closest to a misspelt one, if any is close. Of equally close names it is the
/// first in alphabetical order. Closeness is the Damerau–Levenshtein distance, up to a third of the name's length
/// and at least one, but less than all of it.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let limit = (length / 3).max(1).min(length.saturating_sub(1));
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the known name that was probably meant: the [`suggestion`], or else the name that shares the most words
/// with it (`fuse-conv` for `fuse-conv-relu`) and has the fewest others.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    suggestion(name, known.clone()).or_else(|| {
        let shared = |candidate: &str| {
            let theirs: Vec<&str> = candidate.split('-').collect();
            let shared = words.iter().filter(|word| theirs.contains(word)).count();
            (shared, std::cmp::Reverse(theirs.len() - shared.min(theirs.len())))
        };
        let best = known.into_iter().map(|candidate| (shared(candidate), std::cmp::Reverse(candidate))).max();
        best.filter(|((shared, _), _)| shared * 2 >= words.len().max(1)).map(|(_, candidate)| candidate.0)
    })
}

/// All mistakes that were found in one or more texts, with those texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    sources: Vec<Source>,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Makes a collection without texts and without mistakes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty collection for one text, which is source 0.
    pub fn for_text(name: &str, text: &str) -> Self {
        Self { sources: vec![Source::new(name, text)], list: Vec::new() }
    }

    /// Adds a text and returns the index by which labels refer to it.
    pub fn add_source(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Returns the texts.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Adds a mistake.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds the texts and mistakes of another collection.
    pub fn append(&mut self, other: Self) {
        let shift = self.sources.len();
        self.sources.extend(other.sources);
        self.list.extend(other.list.into_iter().map(|mut diagnostic| {
            for label in &mut diagnostic.labels {
                label.source += shift;
            }
            diagnostic
        }));
    }

    /// Returns the number of mistakes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no mistakes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over the mistakes in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Iterates over the mistakes from an index on, so that details can be added to them later.
    pub(crate) fn since(&mut self, first: usize) -> std::slice::IterMut<'_, Diagnostic> {
        let first = first.min(self.list.len());
        self.list[first..].iter_mut()
    }

    /// Sorts the mistakes by their places.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| (label.source, label.span)));
    }

    /// Returns the value if there are no mistakes.
    ///
    /// # Errors
    /// The collection itself, if it has mistakes.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Renders every mistake with the lines that it is about, in plain text or with the colours of a terminal (ANSI
    /// escapes).
    pub(crate) fn render(&self, color: bool) -> String {
        let config = term::Config { chars: term::Chars::ascii(), ..term::Config::default() };
        let mut bytes = Vec::new();
        for diagnostic in &self.list {
            let (files, shown) = self.shown(diagnostic);
            let done = if color {
                let styles = term::Styles::default();
                let mut writer = term::StylesWriter::new(termcolor::Ansi::new(&mut bytes), &styles);
                term::emit_to_write_style(&mut writer, &config, &files, &shown)
            } else {
                term::emit_to_io_write(&mut bytes, &config, &files, &shown)
            };
            if done.is_err() {
                bytes.extend_from_slice(format!("error: {}\n", diagnostic.message).as_bytes());
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    /// Returns what codespan renders: the texts, with long lines shortened around the places, and the message.
    /// Drops labels whose source does not exist.
    fn shown(&self, diagnostic: &Diagnostic) -> (Excerpts<'_>, rendered::Diagnostic<usize>) {
        let mut places = vec![Vec::new(); self.sources.len()];
        for label in &diagnostic.labels {
            if let (Some(source), Some(places)) =
                (self.sources.get(label.source), places.get_mut(label.source))
            {
                places.push(whole_characters(&source.text, label.span));
            }
        }
        let sources = self.sources.iter().zip(&places);
        let files = Excerpts(
            sources.map(|(source, places)| Excerpt::new(&source.name, &source.text, places)).collect(),
        );
        let mut labels = Vec::new();
        for (position, label) in diagnostic.labels.iter().enumerate() {
            let (Some(source), Some(file)) = (self.sources.get(label.source), files.0.get(label.source))
            else {
                continue;
            };
            let range = file.place(whole_characters(&source.text, label.span));
            let shown = if position == 0 {
                rendered::Label::primary(label.source, range)
            } else {
                rendered::Label::secondary(label.source, range)
            };
            labels.push(shown.with_message(&label.text));
        }
        let message = rendered::Diagnostic::error()
            .with_message(&diagnostic.message)
            .with_labels(labels)
            .with_notes(diagnostic.notes.clone());
        (files, message)
    }
}

/// Returns the span as a range of whole characters inside the text.
fn whole_characters(text: &str, span: Span) -> std::ops::Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len().max(start));
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostics> for String {
    fn from(diagnostics: Diagnostics) -> Self {
        diagnostics.render(false)
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

//! A reader of RON that keeps the place of everything.
//!
//! The `ron` crate reads into Rust types and forgets places, and stops at the first error; rule and
//! pipeline files need carets under what is wrong inside a string, and all errors at once. This
//! reads the part of RON that those files use: structs, lists, maps, strings, numbers, names. Keys
//! may hold hyphens.

use crate::error::{Diagnostic, Span};

/// How deep values may stand in each other: what is read is walked by recursion.
const DEPTH: usize = 200;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place.
    pub span: Span,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

/// What a text may hold.
#[derive(Clone, Debug)]
pub enum Value {
    /// `Name(key: value, …)`, or `Name` alone; with the comment lines above it, or above what stands
    /// before it without a blank line between.
    Struct {
        /// The name.
        name: String,
        /// The fields, in their order.
        fields: Vec<Field>,
        /// The comment lines.
        comment: String,
    },
    /// `[value, …]`.
    List(Vec<Node>),
    /// `{key: value, …}`.
    Map(Vec<Field>),
    /// A string, or a bare word.
    Str(Text),
    /// A number.
    Number(f64),
}

/// A string, with the place in the file of each of its bytes.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The string.
    pub text: String,
    places: Vec<usize>,
    end: usize,
}

impl Text {
    /// Where a range of the string stands in the file.
    pub fn span(&self, range: std::ops::Range<usize>) -> Span {
        let start = self.places.get(range.start).copied().unwrap_or(self.end);
        let end = match range.end.checked_sub(1).and_then(|last| self.places.get(last)) {
            Some(last) if range.end > range.start => last + 1,
            _ => start,
        };
        Span::new(start, end.max(start))
    }

    fn push(&mut self, character: char, place: usize) {
        self.places.extend(std::iter::repeat_n(place, character.len_utf8()));
        self.text.push(character);
    }

    /// With `$name` replaced; what is put in stands where the name stood.
    ///
    /// # Errors
    /// A name without a value, and its place.
    pub fn replace(
        &self,
        values: &[(String, String)],
        used: &mut Vec<String>,
    ) -> Result<Self, (String, Span)> {
        let mut result = Self { end: self.end, ..Self::default() };
        let mut rest = self.text.char_indices().peekable();
        while let Some((at, character)) = rest.next() {
            if character != '$' {
                result.push(character, self.places[at]);
                continue;
            }
            let tail = &self.text[at + 1..];
            let length = tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
            let name = &tail[..length];
            let Some((_, value)) = values.iter().find(|(known, _)| known == name) else {
                return Err((name.to_owned(), self.span(at..at + 1 + length)));
            };
            used.push(name.to_owned());
            for character in value.chars() {
                result.push(character, self.places[at]);
            }
            while rest.peek().is_some_and(|(next, _)| *next <= at + length) {
                rest.next();
            }
        }
        Ok(result)
    }
}

/// Reads one value and demands that nothing follows it.
///
/// # Errors
/// The first mistake, with its place.
pub fn read(text: &str, source: usize) -> Result<Node, Diagnostic> {
    let mut reader = Reader { text, at: 0, depth: 0, source, comment: String::new(), blank: false };
    let node = reader.value()?;
    reader.end()?;
    Ok(node)
}

/// Reads a list of `Name(…)` as far as it is right: after a mistake it goes on at the next line that begins
/// with such a value. A text that is no list is read as what it is.
///
/// # Errors
/// What the text is, where it is no list.
pub fn items(text: &str, source: usize, name: &str) -> Result<(Vec<Node>, Vec<Diagnostic>), Node> {
    let mut reader = Reader { text, at: 0, depth: 1, source, comment: String::new(), blank: false };
    if !reader.eat('[') {
        return match read(text, source) {
            Ok(other) => Err(other),
            Err(mistake) => Ok((Vec::new(), vec![mistake])),
        };
    }
    let start = reader.at - 1;
    let (mut items, mut mistakes, mut above) = (Vec::new(), Vec::new(), String::new());
    while !reader.eat(']') {
        let begin = reader.at;
        match reader.item(&mut above, start) {
            Ok(item) => items.push(item),
            Err(mistake) => {
                let at = mistake.labels.first().map_or(text.len(), |label| label.span.start);
                let at = at.max(begin + 1);
                mistakes.push(mistake);
                let Some(next) = next_line(text, at, name) else { return Ok((items, mistakes)) };
                reader = Reader { at: next, depth: 1, comment: String::new(), blank: true, ..reader };
            }
        }
    }
    if let Err(mistake) = reader.end() {
        mistakes.push(mistake);
    }
    Ok((items, mistakes))
}

/// Whether a text holds nothing but blanks and comments.
pub fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with("//"))
}

/// Where the next line from a place on begins with `name(`.
fn next_line(text: &str, from: usize, name: &str) -> Option<usize> {
    text.match_indices(name)
        .map(|(at, _)| at)
        .filter(|at| *at >= from && text[at + name.len()..].starts_with('('))
        .find(|at| text[..*at].trim_end_matches([' ', '\t']).ends_with('\n'))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How many values are open.
    depth: usize,
    source: usize,
    /// The comment lines right above.
    comment: String,
    /// Whether a blank line was skipped last.
    blank: bool,
}

impl Reader<'_> {
    fn error(
        &self,
        message: impl Into<String>,
        range: std::ops::Range<usize>,
        help: impl AsRef<str>,
    ) -> Diagnostic {
        Diagnostic::new(message).label(self.source, range.into(), "").help(help)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Skips space and comments. Where nothing is skipped, the comment that was met last still stands
    /// right above.
    fn space(&mut self) {
        let start = self.at;
        let mut lines: Vec<&str> = Vec::new();
        let (mut newlines, mut blank) = (0, false);
        loop {
            let rest = &self.text[self.at..];
            if let Some(comment) = rest.strip_prefix("//") {
                let line = comment.lines().next().unwrap_or("");
                if newlines > 1 {
                    lines.clear();
                }
                // At the end of a line it is about what stands before it.
                if newlines > 0 || start == 0 || !lines.is_empty() {
                    lines.push(line.trim());
                }
                newlines = 0;
                self.at += 2 + line.len();
            } else if let Some(space) = rest.chars().next().filter(|c| c.is_whitespace()) {
                newlines += usize::from(space == '\n');
                blank |= newlines > 1;
                self.at += space.len_utf8();
            } else {
                break;
            }
        }
        if newlines > 1 {
            lines.clear();
        }
        if self.at > start {
            self.comment = lines.join(" ");
            self.blank = blank;
        }
    }

    /// That nothing follows.
    fn end(&mut self) -> Result<(), Diagnostic> {
        self.space();
        if self.at < self.text.len() {
            return Err(self.error(
                "something follows the end",
                self.at..self.text.len().min(self.at + 1),
                "take it away, or move it inside what ends before it",
            ));
        }
        Ok(())
    }

    /// A value of a list that began at `start`, and what separates it from the next. A comment is of all
    /// values down to the next blank line: `above` keeps it.
    fn item(&mut self, above: &mut String, start: usize) -> Result<Node, Diagnostic> {
        if self.comment.is_empty() && !self.blank {
            self.comment.clone_from(above);
        }
        above.clone_from(&self.comment);
        let node = self.value()?;
        self.separator(']', start)?;
        Ok(node)
    }

    fn eat(&mut self, token: char) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len_utf8();
        }
        found
    }

    fn name(&mut self) -> Option<(String, Span)> {
        self.space();
        let length = self
            .rest()
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .unwrap_or(self.rest().len());
        let first = self.rest().chars().next()?;
        if length == 0 || !(first.is_ascii_alphabetic() || first == '_') {
            return None;
        }
        let start = self.at;
        self.at += length;
        Some((self.text[start..self.at].to_owned(), Span::new(start, self.at)))
    }

    fn value(&mut self) -> Result<Node, Diagnostic> {
        self.space();
        let comment = std::mem::take(&mut self.comment);
        let start = self.at;
        if self.depth == DEPTH {
            return Err(self.error(
                format!("values stand more than {DEPTH} deep in each other"),
                start..self.rest().chars().next().map_or(start, |c| start + c.len_utf8()),
                "close what is open: no rule and no pipeline needs so many",
            ));
        }
        self.depth += 1;
        let value = match self.rest().chars().next() {
            None => {
                return Err(self.error(
                    "a value is missing at the end of the file",
                    start..start,
                    "close what is open, or write the value",
                ));
            }
            Some('"' | 'r')
                if self.rest().starts_with('"')
                    || self.rest().starts_with("r\"")
                    || self.rest().starts_with("r#") =>
            {
                Value::Str(self.string()?)
            }
            Some('[') => {
                self.at += 1;
                let mut items = Vec::new();
                let mut above = String::new();
                while !self.eat(']') {
                    items.push(self.item(&mut above, start)?);
                }
                Value::List(items)
            }
            Some('{') => {
                self.at += 1;
                Value::Map(self.fields('}', start)?)
            }
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' => {
                let length = self
                    .rest()
                    .find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)))
                    .unwrap_or(self.rest().len());
                self.at += length;
                let digits = self.text[start..self.at].replace('_', "");
                let number: f64 = digits.parse().map_err(|_| {
                    self.error(
                        format!("`{digits}` is not a number"),
                        start..self.at,
                        "write digits, such as `12` or `0.5`, or put it in quotes",
                    )
                })?;
                if number.is_infinite() && !digits.contains('i') {
                    return Err(self.error(
                        format!("`{digits}` is too large for a number"),
                        start..self.at,
                        "write a number that a 64-bit float holds",
                    ));
                }
                Value::Number(number)
            }
            Some(other) => {
                let Some((name, _)) = self.name() else {
                    return Err(self.error(
                        format!("`{other}` does not begin a value"),
                        start..start + other.len_utf8(),
                        "write text in quotes, a number, `[…]`, `{…}` or `Name(…)`",
                    ));
                };
                let fields = if self.eat('(') { self.fields(')', start)? } else { Vec::new() };
                Value::Struct { name, fields, comment }
            }
        };
        self.depth -= 1;
        Ok(Node { value, span: Span::new(start, self.at) })
    }

    fn fields(&mut self, close: char, start: usize) -> Result<Vec<Field>, Diagnostic> {
        let mut fields: Vec<Field> = Vec::new();
        while !self.eat(close) {
            let at = self.at;
            let Some((key, key_span)) = self.name() else {
                let end = self.rest().chars().next().map_or(at, |c| at + c.len_utf8());
                return Err(self.error("a key is missing here", at..end, "write `key: value`").label(
                    self.source,
                    Span::new(start, start + 1),
                    "opened here",
                ));
            };
            if !self.eat(':') {
                return Err(self.error(
                    format!("`:` is missing after `{key}`"),
                    self.at..self.at,
                    format!("write `{key}: …`"),
                ));
            }
            let node = self.value()?;
            if let Some(first) = fields.iter().find(|field| field.key == key) {
                return Err(Diagnostic::new(format!("`{key}` stands twice"))
                    .label(self.source, key_span, "here again")
                    .label(self.source, first.key_span, "first here")
                    .help("take one of them away, or give it the key that is meant"));
            }
            fields.push(Field { key, key_span, node });
            self.separator(close, start)?;
        }
        Ok(fields)
    }

    fn separator(&mut self, close: char, start: usize) -> Result<(), Diagnostic> {
        self.space();
        if self.eat(',') || self.rest().starts_with(close) {
            return Ok(());
        }
        let end = self.rest().chars().next().map_or(self.at, |c| self.at + c.len_utf8());
        let help = format!("write `,` before what follows, or `{close}` to close what is open");
        Err(self.error(format!("`,` or `{close}` is missing here"), self.at..end, help).label(
            self.source,
            Span::new(start, start + 1),
            "opened here",
        ))
    }

    fn string(&mut self) -> Result<Text, Diagnostic> {
        let start = self.at;
        let mut text = Text::default();
        if self.rest().starts_with('r') {
            let hashes = self.rest()[1..].chars().take_while(|c| *c == '#').count();
            let from = self.at + 2 + hashes;
            let close = format!("\"{}", "#".repeat(hashes));
            let Some(length) = self.text.get(from..).and_then(|rest| rest.find(&close)) else {
                return Err(self.error(
                    "the string does not end",
                    start..start + 1,
                    "close it with the quotes that it begins with",
                ));
            };
            for (at, character) in self.text[from..from + length].char_indices() {
                text.push(character, from + at);
            }
            text.end = from + length;
            self.at = from + length + close.len();
            return Ok(text);
        }
        self.at += 1;
        loop {
            let at = self.at;
            let Some(character) = self.rest().chars().next() else {
                return Err(self.error(
                    "the string does not end",
                    start..start + 1,
                    "close it with the quotes that it begins with",
                ));
            };
            self.at += character.len_utf8();
            match character {
                '"' => {
                    text.end = at;
                    return Ok(text);
                }
                '\\' => {
                    let escaped = self.rest().chars().next().unwrap_or(' ');
                    self.at += escaped.len_utf8();
                    match escaped {
                        '"' | '\\' => text.push(escaped, at),
                        'n' => text.push('\n', at),
                        't' => text.push('\t', at),
                        '\n' => {
                            // A continued line: its indentation is not part of the string.
                            let skipped = self.rest().find(|c: char| !c.is_whitespace()).unwrap_or(0);
                            self.at += skipped;
                        }
                        other => {
                            return Err(self.error(
                                format!("`\\{other}` is no escape"),
                                at..self.at,
                                "write `\\\\` for a backslash, or `\\\"`, `\\n`, `\\t`",
                            ));
                        }
                    }
                }
                other => text.push(other, at),
            }
        }
    }
}

//! Line breaks in texts: code is broken between its parts, and graphs between statements.

use super::{STEP, WIDTH};

/// A part of code between blanks.
type Part = Vec<Atom>;

enum Atom {
    Word(String),
    /// The content of brackets, with the opening and the closing one.
    Group(char, Vec<Part>, char),
}

/// Returns code on one line.
pub fn flat(text: &str) -> String {
    join(&parts(text))
}

/// Breaks code that begins at a column. Lines after the first are indented by `indent` columns, and `reserve` columns
/// stay free at the end.
pub fn code(text: &str, column: usize, indent: usize, reserve: usize) -> String {
    let mut wrap = Wrap { text: String::new(), column };
    wrap.parts(&parts(text), indent, reserve);
    wrap.text
}

/// Returns the statements of a graph, which are separated by line breaks or semicolons. A line break after a comma, after
/// `=`, or after the `{` of attributes separates nothing.
pub fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let (mut from, mut quoted, mut escaped) = (0, false, false);
        for (at, c) in line.char_indices() {
            match c {
                '"' if !escaped => quoted = !quoted,
                ';' if !quoted => {
                    lines.push(&line[from..at]);
                    from = at + 1;
                }
                '/' if !quoted && line[at..].starts_with("//") && !line[..at].ends_with(is_word) => break,
                _ => {}
            }
            escaped = c == '\\' && !escaped;
        }
        lines.push(&line[from..]);
    }
    let mut statements: Vec<String> = Vec::new();
    for line in lines.into_iter().map(str::trim).filter(|line| !line.is_empty()) {
        match statements.last_mut() {
            Some(last) if last.ends_with([',', '=']) => {
                last.push(' ');
                last.push_str(line);
            }
            // The `{` after `graph` opens the statements.
            Some(last) if last.ends_with('{') && last.contains('=') => last.push_str(line),
            _ => statements.push(line.to_owned()),
        }
    }
    statements
}

/// Breaks a statement that is too long: after its commas, and where that is not enough, after `=` and after `{`. The rows
/// after the first one are indented further.
pub fn rows(statement: &str, indent: usize) -> String {
    let mut rows = Rows { text: " ".repeat(indent), width: indent, indent: indent + STEP, begins: true };
    rows.place(statement, &[", ", "= ", "{"]);
    rows.text
}

/// The rows of a statement.
struct Rows {
    text: String,
    /// The columns of the last row.
    width: usize,
    /// The indentation of further rows.
    indent: usize,
    /// Whether the last row has nothing but its indentation.
    begins: bool,
}

impl Rows {
    /// Adds a part of the statement, which is divided after the marks if it is too long, after the first one if possible.
    fn place(&mut self, part: &str, marks: &[&str]) {
        let length = part.trim_end().chars().count();
        let fits = self.width + length <= WIDTH;
        match marks {
            [mark, marks @ ..] if !fits && (self.begins || self.indent + length > WIDTH) => {
                after(part, mark).into_iter().for_each(|part| self.place(part, marks));
                return;
            }
            _ if !fits && !self.begins => {
                self.text.truncate(self.text.trim_end().len());
                self.text.push('\n');
                self.text.push_str(&" ".repeat(self.indent));
                self.width = self.indent;
            }
            _ => {}
        }
        self.text.push_str(part);
        self.width += part.chars().count();
        self.begins = false;
    }
}

/// Returns the parts of a statement, each with the mark after it. A mark in a quoted text ends no part.
fn after<'t>(statement: &'t str, mark: &str) -> Vec<&'t str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in statement.char_indices() {
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = c == '\\' && !escaped;
        let end = at + c.len_utf8();
        if !quoted && end > from && statement[from..end].ends_with(mark) {
            parts.push(&statement[from..end]);
            from = end;
        }
    }
    parts.push(&statement[from..]);
    parts
}

/// Returns whether a character belongs to names in graphs. Slashes directly after such a character do not start a
/// comment.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '\'' | '-')
}

/// Returns the parts of a text.
fn parts(text: &str) -> Vec<Part> {
    let mut rest = text.chars().peekable();
    let mut parts = sequence(&mut rest);
    // Closing brackets without an opening one are kept.
    while let Some(close) = rest.next() {
        parts.push(vec![Atom::Word(close.to_string())]);
        parts.extend(sequence(&mut rest));
    }
    parts
}

/// Returns the parts up to a closing bracket or the end.
fn sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut part, mut word) = (Part::new(), String::new());
    let end_word = |part: &mut Part, word: &mut String| {
        if !word.is_empty() {
            part.push(Atom::Word(std::mem::take(word)));
        }
    };
    while let Some(&c) = rest.peek() {
        match c {
            ')' | ']' | '}' => break,
            '(' | '[' | '{' => {
                rest.next();
                end_word(&mut part, &mut word);
                let close = match c {
                    '(' => ')',
                    '[' => ']',
                    _ => '}',
                };
                let inner = sequence(rest);
                let end = if rest.peek() == Some(&close) { rest.next() } else { None };
                match end {
                    Some(end) => part.push(Atom::Group(c, inner, end)),
                    // The bracket is not closed, or by a different one: its parts are kept.
                    None => {
                        part.push(Atom::Word(c.to_string()));
                        parts.push(std::mem::take(&mut part));
                        parts.extend(inner);
                    }
                }
            }
            '"' => {
                rest.next();
                word.push(c);
                for c in rest.by_ref() {
                    word.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            c if c.is_whitespace() => {
                rest.next();
                end_word(&mut part, &mut word);
                finish(&mut parts, &mut part);
            }
            c => {
                rest.next();
                word.push(c);
            }
        }
    }
    end_word(&mut part, &mut word);
    finish(&mut parts, &mut part);
    parts
}

/// Adds a part. If the previous part is the name of its value, both are joined.
fn finish(parts: &mut Vec<Part>, part: &mut Part) {
    if part.is_empty() {
        return;
    }
    let part = std::mem::take(part);
    let named = |last: &&mut Part| matches!(last.last(), Some(Atom::Word(word)) if word.ends_with(':'));
    match parts.last_mut().filter(named) {
        Some(last) => {
            last.push(Atom::Word(" ".to_owned()));
            last.extend(part);
        }
        None => parts.push(part),
    }
}

fn join(parts: &[Part]) -> String {
    parts.iter().map(|part| part.iter().map(atom).collect::<String>()).collect::<Vec<_>>().join(" ")
}

fn atom(atom: &Atom) -> String {
    match atom {
        Atom::Word(word) => word.clone(),
        Atom::Group(open, inner, close) => format!("{open}{}{close}", join(inner)),
    }
}

struct Wrap {
    text: String,
    column: usize,
}

impl Wrap {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn parts(&mut self, parts: &[Part], indent: usize, reserve: usize) {
        for (at, part) in parts.iter().enumerate() {
            let reserve = if at + 1 == parts.len() { reserve } else { 0 };
            let flat: String = part.iter().map(atom).collect();
            let width = flat.chars().count() + reserve;
            if at > 0 && self.column + 1 + width <= WIDTH {
                self.push(" ");
            } else if at > 0 {
                self.text.push('\n');
                self.text.push_str(&" ".repeat(indent));
                self.column = indent;
            }
            if self.column + width <= WIDTH {
                self.push(&flat);
            } else {
                self.part(part, indent, reserve);
            }
        }
    }

    /// Writes a part that is too long for a line.
    fn part(&mut self, part: &Part, indent: usize, reserve: usize) {
        for (at, one) in part.iter().enumerate() {
            let after: usize = part[at + 1..].iter().map(|one| atom(one).chars().count()).sum();
            match one {
                Atom::Word(word) => self.push(word),
                Atom::Group(open, inner, close) => {
                    self.push(&open.to_string());
                    self.parts(inner, indent + STEP, reserve + after + 1);
                    self.push(&close.to_string());
                }
            }
        }
    }
}

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

/// Returns the statements of a graph, which are separated by line breaks or semicolons. A line break after a comma
/// separates nothing.
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
            Some(last) if last.ends_with(',') => {
                last.push(' ');
                last.push_str(line);
            }
            _ => statements.push(line.to_owned()),
        }
    }
    statements
}

/// Breaks a statement that is too long after its commas. The rows after the first one are indented further.
pub fn rows(statement: &str, indent: usize) -> String {
    let mut text = " ".repeat(indent);
    let (mut width, mut from) = (indent, 0);
    for part in after_commas(statement) {
        let length = part.trim_end().chars().count();
        if from > 0 && width + length > WIDTH {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(indent + STEP));
            width = indent + STEP;
        }
        text.push_str(part);
        width += part.chars().count();
        from += part.len();
    }
    text
}

/// Returns the parts of a statement, each with the comma and the blank after it. A comma in a quoted text ends no part.
fn after_commas(statement: &str) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut quoted, mut escaped, mut comma) = (false, false, false);
    for (at, c) in statement.char_indices() {
        if comma && c == ' ' && !quoted {
            parts.push(&statement[from..=at]);
            from = at + 1;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        comma = c == ',' && !quoted;
        escaped = c == '\\' && !escaped;
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

//! The formatter of files that users write: the same line breaks, indentation and quotes everywhere. It keeps all
//! comments.
//!
//! The printer of the crate `ron` writes values, so it loses comments and which fields were left out. This formatter
//! writes the tokens of the text instead. It only changes blanks, trailing commas, and the line breaks in texts as
//! [`Style`] says. A value is written on one line if it fits. Otherwise each part has its own line, and short parts
//! of a list share lines. One blank line between parts is kept.

mod tree;
mod wrap;

use wrap::rows;
pub use wrap::{flat, lines};

use super::Reader;
use crate::diagnostic::{Diagnostics, Source};
use tree::{Comment, Group, Item, Node};

/// The largest width of a line that can be broken.
pub const WIDTH: usize = 100;
const STEP: usize = 4;
/// The columns of the longest field of statements, with the quotes and the comma.
const HEAD: usize = "refuses: \"\",".len();
/// The largest width of list parts that share lines.
const SHORT: usize = 30;

/// How the text of a field is broken into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The text is not changed, because its blanks may have a meaning.
    Plain,
    /// Code in which all blanks have the same meaning: a pattern, a guard, a formula. If it is too long, it is broken
    /// between its parts.
    Code,
    /// Lines with one statement each, such as the graph of an example. `;` also ends a line.
    Lines,
}

impl Style {
    /// Returns how a field of this name is formatted in the files of ovolo: rules, examples, pipelines, experiments,
    /// price lists.
    pub fn of(field: &str) -> Self {
        match field {
            "from" | "to" | "when" | "let" | "for_each" | "because" | "define" | "value" => Self::Code,
            "fires" | "after" | "refuses" => Self::Lines,
            _ => Self::Plain,
        }
    }
}

/// Formats a file. `style` returns, for the name of a field, how its texts are broken into lines. Entries of maps and
/// lists belong to the field that contains them.
///
/// # Errors
/// If the text is not RON; with positions.
pub fn format(name: &str, text: &str, style: fn(&str) -> Style) -> Result<String, Diagnostics> {
    let mut found = Diagnostics::new();
    let source = found.add_source(Source::new(name, text));
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    Reader::new(&mut found, source).document(text);
    found.into_result(())?;
    let file = tree::root(text);
    let mut printer = Printer { text: String::new(), style };
    printer.root(&file);
    Ok(printer.text)
}

/// Returns a text in quotes, as a raw string if it would need escapes.
fn quoted(text: &str) -> String {
    if !text.contains(['"', '\\']) {
        return format!("\"{text}\"");
    }
    let hashes = (1..).map(|count| "#".repeat(count)).find(|hashes| !text.contains(&format!("\"{hashes}")));
    let hashes = hashes.unwrap_or_default();
    format!("r{hashes}\"{text}\"{hashes}")
}

/// Returns statements in quotes, as the value of a field that is indented by `indent` columns. A single statement
/// stays on the line of the field if it fits; several statements have their own lines, and go on in further lines after a
/// comma.
pub fn statements(text: &str, indent: usize) -> String {
    let lines = lines(text);
    match &lines[..] {
        [] => "\"\"".to_owned(),
        [line] if indent + HEAD + line.chars().count() <= WIDTH => quoted(line),
        lines => {
            let body: String = lines.iter().map(|line| rows(line, indent + STEP) + "\n").collect();
            quoted(&format!("\n{body}{}", " ".repeat(indent)))
        }
    }
}

/// Returns whether a key is the name of a field, and not a text as a key of a map.
fn names_a_field(key: &str) -> bool {
    !key.ends_with(['"', '#'])
}

struct Printer {
    text: String,
    style: fn(&str) -> Style,
}

/// The position at which a value is printed.
#[derive(Clone, Copy)]
struct Place<'t> {
    /// The field to which the value belongs.
    field: &'t str,
    /// The indentation of its line.
    indent: usize,
    /// The columns that are reserved on its last line for the following text.
    reserve: usize,
}

impl Printer {
    fn root(&mut self, root: &Group) {
        let [item] = &root.items[..] else { return };
        self.comments(&item.above, 0);
        if !item.above.is_empty() && item.gap {
            self.text.push('\n');
        }
        let place = Place { field: "", indent: 0, reserve: 0 };
        match &item.node {
            Node::Group(group) if !group.is_empty() => self.broken(group, place),
            node => self.value(node, place),
        }
        self.after(item);
        self.text.push('\n');
        self.comments(&root.end, 0);
    }

    fn column(&self) -> usize {
        self.text.rsplit('\n').next().map_or(0, |line| line.chars().count())
    }

    fn fits(&self, flat: &str, place: Place<'_>) -> bool {
        self.column() + flat.chars().count() + place.reserve <= WIDTH
    }

    fn comments(&mut self, comments: &[Comment], indent: usize) {
        for comment in comments {
            if comment.gap {
                self.text.push('\n');
            }
            self.line(indent);
            self.text.push_str(&comment.text);
            self.text.push('\n');
        }
    }

    /// Writes a comment at the end of the line.
    fn after(&mut self, item: &Item) {
        if let Some(comment) = &item.after {
            self.text.push(' ');
            self.text.push_str(comment);
        }
    }

    fn line(&mut self, indent: usize) {
        self.text.push_str(&" ".repeat(indent));
    }

    fn value(&mut self, node: &Node, place: Place<'_>) {
        if let Some(flat) = self.flat(node, place.field).filter(|flat| self.fits(flat, place)) {
            self.text.push_str(&flat);
            return;
        }
        match node {
            Node::Leaf(text) => self.text.push_str(text),
            Node::Text { written, text } => {
                let text = match (self.style)(place.field) {
                    Style::Plain => written.clone(),
                    Style::Lines => statements(text, place.indent),
                    Style::Code => {
                        let column = self.column() + quoted(text).find('"').unwrap_or(0) + 1;
                        quoted(&wrap::code(text, column, place.indent + STEP, place.reserve + 2))
                    }
                };
                self.text.push_str(&text);
            }
            Node::Group(group) => self.broken(group, place),
        }
    }

    /// Writes a group whose parts have their own lines.
    fn broken(&mut self, group: &Group, place: Place<'_>) {
        self.text.push_str(&group.head);
        self.text.push(group.open);
        self.text.push('\n');
        let inner = place.indent + STEP;
        match self.short(group) {
            Some(parts) => self.filled(&parts, inner),
            None => {
                for (at, item) in group.items.iter().enumerate() {
                    self.item(item, at > 0, Place { indent: inner, reserve: 1, ..place });
                }
                self.comments(&group.end, inner);
            }
        }
        self.line(place.indent);
        self.text.push(group.close());
    }

    fn item(&mut self, item: &Item, later: bool, place: Place<'_>) {
        if later && item.gap_above() {
            self.text.push('\n');
        }
        let mut above = item.above.clone();
        if let Some(first) = above.first_mut() {
            first.gap = false;
        }
        self.comments(&above, place.indent);
        if !above.is_empty() && item.gap {
            self.text.push('\n');
        }
        self.line(place.indent);
        let mut field = place.field;
        if let Some(key) = &item.key {
            self.text.push_str(key);
            self.text.push_str(": ");
            if names_a_field(key) {
                field = key;
            }
        }
        self.value(&item.node, Place { field, ..place });
        self.text.push(',');
        self.after(item);
        self.text.push('\n');
    }

    /// Returns the parts of a list if they are words, numbers and short texts, which may share lines.
    fn short(&self, group: &Group) -> Option<Vec<String>> {
        if group.open != '[' || !group.end.is_empty() {
            return None;
        }
        let one = |item: &Item| match &item.node {
            Node::Group(_) => None,
            node if item.is_bare() => self.flat(node, "").filter(|text| text.chars().count() <= SHORT),
            _ => None,
        };
        group.items.iter().map(one).collect()
    }

    fn filled(&mut self, parts: &[String], indent: usize) {
        self.line(indent);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                let wide = self.column() + part.chars().count() + 2 > WIDTH;
                self.text.push_str(if wide { "\n" } else { " " });
                if wide {
                    self.line(indent);
                }
            }
            self.text.push_str(part);
            self.text.push(',');
        }
        self.text.push('\n');
    }

    /// Returns a value on one line; `None` if it contains a comment or a text of several lines.
    fn flat(&self, node: &Node, field: &str) -> Option<String> {
        match node {
            Node::Leaf(text) => Some(text.clone()),
            Node::Text { written, text } => match (self.style)(field) {
                Style::Plain => Some(written.clone()),
                Style::Code => Some(quoted(&flat(text))),
                Style::Lines => match &lines(text)[..] {
                    [line] => Some(quoted(line)),
                    _ => None,
                },
            },
            Node::Group(group) => {
                if !group.end.is_empty() {
                    return None;
                }
                let part = |item: &Item| {
                    if !item.above.is_empty() || item.after.is_some() {
                        return None;
                    }
                    let Some(key) = &item.key else { return self.flat(&item.node, field) };
                    let field = if names_a_field(key) { key } else { field };
                    Some(format!("{key}: {}", self.flat(&item.node, field)?))
                };
                let parts = group.items.iter().map(part).collect::<Option<Vec<_>>>()?;
                Some(format!("{}{}{}{}", group.head, group.open, parts.join(", "), group.close()))
            }
        }
        .filter(|text| !text.contains('\n'))
    }
}

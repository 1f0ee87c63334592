//! What the reference says of a name, as Markdown.

use crate::kind::Kind;
use ovolo::Pipeline;
use ovolo::op::{AttrDef, Op, OpDef};
use ovolo::pass::PassKind;
use ovolo::registry::Registry;
use ovolo::rule::{Example, Rule, Word};
use ovolo_proof::reference;
use std::fmt::Write;

/// Describes an op: its operands, its attributes, and what it computes.
pub fn op(op: Op) -> String {
    let mut text = format!("**{}** — {}\n\nOperands: {}", op.name, op.doc, reference::operands(op.arity));
    for (at, attr) in op.attrs.iter().enumerate() {
        text.push_str(if at == 0 { "\n\n" } else { "\n" });
        let _ = write!(text, "- {}", attribute(attr));
    }
    if op.is_lowered() {
        let _ = write!(text, "\n\nA lowered op, of `{}`.", op.logical().name);
    }
    text
}

/// Describes an attribute: its kind, its default, and what it means.
pub fn attribute(attr: &AttrDef) -> String {
    format!("{} — {}", reference::attribute(attr), attr.doc)
}

/// Describes a guard or a computed attribute.
pub fn word(word: &Word) -> String {
    let what =
        if word.is_guard() { "guard".to_owned() } else { format!("computed attribute: {}", word.gives) };
    format!("**{}** — {}\n\n{what}", word.signature(), word.doc)
}

/// Describes a rule: its law, its sides and its guards.
pub fn rule(rule: &Rule, text: Option<&str>) -> String {
    let mut shown = format!("**{}** ({}:{})", rule.name, rule.file, rule.line);
    if !rule.doc.is_empty() {
        let _ = write!(shown, "\n\n{}", rule.doc);
    }
    if let Some(text) = text {
        let sides = |title: &str, spans: &[ovolo::error::Span]| {
            let lines = spans.iter().map(|span| {
                let written: Vec<&str> = span.slice(text).split_whitespace().collect();
                format!("{title} {}\n", written.join(" "))
            });
            lines.collect::<String>()
        };
        let [from, to, when] = [
            sides("from", &rule.places.from),
            sides("to  ", &rule.places.to),
            sides("when", &rule.places.when),
        ];
        let _ = write!(shown, "\n\n```\n{from}{to}{when}```");
    }
    shown
}

/// Describes a pass by its settings.
pub fn pass(name: &str, kind: &PassKind) -> String {
    let settings: Vec<String> = kind.fields().iter().map(|field| format!("`{field}`")).collect();
    format!("**{name}** — a pass, with the settings {}", settings.join(", "))
}

/// Returns the guard or computed attribute of a name.
pub fn word_of(registry: &Registry, name: &str) -> Option<&'static Word> {
    registry.words().all().find(|word| word.name == name)
}

/// Returns the attribute of a name.
pub fn attribute_of<'a>(op: &'a OpDef, name: &str) -> Option<&'a AttrDef> {
    op.attrs.iter().find(|attr| attr.name == name)
}

/// Returns the fields of a struct with what they mean.
pub fn fields(registry: &Registry, kind: Kind, head: &str) -> Vec<(&'static str, &'static str)> {
    let plain = |names: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        names.iter().map(|name| (*name, "")).collect()
    };
    match (kind, head) {
        (Kind::Rules, "Rule") => Rule::FIELDS.to_vec(),
        (Kind::Examples, "Examples") => plain(&["rule", "examples"]),
        (Kind::Examples, "Example") => Example::FIELDS.to_vec(),
        (Kind::Pipeline, "Pipeline") => plain(Pipeline::fields()),
        (Kind::Pipeline, pass) => {
            registry.catalog().passes.get(pass).map(|kind| plain(kind.fields())).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

//! Hover: what the name at a position means.

use crate::description;
use crate::document::Document;
use crate::project::Project;
use crate::symbol::{self, Occurrence, Symbol};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};
use ovolo::error::Span;
use std::path::Path;

/// Returns what the name at a byte of a file means; `None` if there is no name, or nothing is known of it.
pub fn hover(project: &mut Project, path: &Path, at: usize) -> Option<Hover> {
    let document = project.workspace.get(path)?.clone();
    let one = symbol::at(&document, at)?;
    let value = meaning(project, &document, &one)?;
    let range = Some(project.encoding.range(&document.text, one.span));
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value }),
        range,
    })
}

fn meaning(project: &mut Project, document: &Document, one: &Occurrence) -> Option<String> {
    let registry = &project.registry;
    match &one.symbol {
        Symbol::Op(name) if name == "each" => {
            Some("**each** — a template for each value of a rest: `(each ?xs ?x (op ?x))`".to_owned())
        }
        Symbol::Op(name) => registry.ops().get(name).map(description::op),
        Symbol::Attribute(op, name) => {
            let op = registry.ops().get(op)?;
            Some(description::attribute(description::attribute_of(&op, name)?))
        }
        Symbol::Function(name) => description::word_of(registry, name).map(description::word),
        Symbol::Step(name) => {
            registry.ops().step(name)?;
            Some(match registry.ops().get(name) {
                Some(op) => format!("**{name}** — a step of a chain: {}", op.doc),
                None => format!("**{name}** — a step of a chain"),
            })
        }
        Symbol::Struct(name) => registry.catalog().passes.get(name).map(|kind| description::pass(name, kind)),
        Symbol::Field(head, name) => {
            let fields = description::fields(registry, document.kind, head);
            let (_, doc) = fields.into_iter().find(|(known, doc)| known == name && !doc.is_empty())?;
            Some(format!("**{name}** — {doc}"))
        }
        Symbol::Rule(name) => rules(project, name),
        Symbol::Variable(name) => Some(variable(document, one, name)),
        Symbol::Rest(name) => {
            Some(format!("**\\*{name}** — the attributes that the left side does not name"))
        }
        Symbol::Key(name) => Some(key(document, one, name)),
        Symbol::Setting(field, name) => {
            let backend = (field == "backends").then(|| registry.backends().get(name)).flatten()?;
            Some(match backend.found() {
                Ok(_) => format!("**{name}** — a backend, which is available here"),
                Err(why) => format!("**{name}** — a backend, which is absent here: {why}"),
            })
        }
    }
}

/// Describes the rules of a name, which may be that of a file.
fn rules(project: &mut Project, name: &str) -> Option<String> {
    let rules = project.rules.called(&project.registry, &project.workspace, name);
    if let [rule] = &rules[..] {
        let document = project.workspace.path(&rule.file).and_then(|path| project.workspace.get(&path));
        let text = document.map(|document| document.text.as_str());
        let shipped = project.registry.rules().get(&rule.file).map(|text| &**text);
        return Some(description::rule(rule, text.or(shipped)));
    }
    let first = rules.first()?;
    let names: Vec<String> = rules.iter().map(|rule| format!("- `{}` — {}", rule.name, rule.doc)).collect();
    Some(format!("**{name}** — {} rules of {}\n\n{}", rules.len(), first.file, names.join("\n")))
}

/// Says what a variable stands for, by the first place that has it.
fn variable(document: &Document, one: &Occurrence, name: &str) -> String {
    let all = symbol::occurrences(document);
    let same = |other: &&Occurrence| other.item == one.item && other.symbol == one.symbol;
    let first = all.iter().filter(same).find(|other| other.field == "from");
    if let Some((op, attribute)) = first.and_then(|first| first.value_of.as_ref()) {
        return format!("**?{name}** — the attribute `{attribute}` of `{op}`");
    }
    let behind = |one: &Occurrence| Span::new(one.span.end, document.text.len()).slice(&document.text);
    let form = match first.map(behind) {
        Some(rest) if rest.starts_with("..") => "a rest: any number of operands, also none",
        Some(rest) if rest.starts_with('?') => "an operand that may be absent",
        Some(rest) if rest.starts_with(':') => "a constant of one element",
        Some(_) => "an operand",
        None if all.iter().filter(same).any(|other| other.field == "let") => {
            "an attribute that `let` computes"
        }
        None => "one value of a rest",
    };
    format!("**?{name}** — {form}")
}

/// Lists the values of a key.
fn key(document: &Document, one: &Occurrence, name: &str) -> String {
    let Document { text, outline, .. } = document;
    let mut values: Vec<&str> = Vec::new();
    let mut is_own = false;
    for literal in &outline.literals {
        if outline.item(literal.parent) != one.item
            || literal.field.map(|key| key.slice(text)) != Some("for_each")
        {
            continue;
        }
        let written = literal.body.slice(text);
        match literal.is_key {
            true => is_own = written == name,
            false if is_own => values.push(written),
            false => {}
        }
    }
    if values.is_empty() {
        return format!("**${name}** — replaced by the value of its row");
    }
    format!("**${name}** — `{}`", values.join("`, `"))
}

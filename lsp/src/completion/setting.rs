//! Completion of plain texts in quotes: names of rules, backends, extractors and the like.

use super::item::Items;
use crate::document::Document;
use crate::kind::Kind;
use crate::outline::Literal;
use crate::project::Project;
use crate::rule_index;
use crate::workspace::Workspace;
use lsp_types::CompletionItemKind;
use ovolo::error::Span;
use ovolo::rule::{Precision, Rule};
use std::path::Path;

/// Adds the names that the field of a text in quotes takes.
pub fn complete(
    project: &mut Project,
    (path, document): (&Path, &Document),
    literal: &Literal,
    at: usize,
    items: &mut Items<'_>,
) {
    let text = &document.text;
    // A name is replaced as a whole; what follows an unclosed quote is not part of it.
    let end = if literal.is_closed { literal.body.end } else { at };
    let part = Span::new(literal.body.start, end);
    let field = literal.field.map_or("", |field| field.slice(text));
    let head = document.outline.head(text, literal.parent);
    let mut add = |name: &str, detail: &str| {
        items.add(part, CompletionItemKind::VALUE, (name, name), detail);
    };
    if head == "Examples" && field == "rule" {
        let rules = Workspace::rules_of(path).and_then(|rules| project.workspace.get(&rules).cloned());
        if let Some(rules) = rules {
            rule_index::names(&rules).for_each(|(_, span)| add(span.slice(&rules.text), "a rule"));
        }
        return;
    }
    if field == "precision" {
        Precision::ALL.iter().for_each(|one| add(one.name(), "a precision"));
    }
    if field == "assume" {
        Rule::ASSUMPTIONS.iter().for_each(|one| add(one, "an assumption"));
    }
    if document.kind != Kind::Pipeline {
        return;
    }
    match field {
        "rules" => {
            let rules = project.rules.all(&project.registry, &project.workspace);
            rules.rules().iter().for_each(|rule| add(rule.stem(), "a file of rules"));
            rules.rules().iter().for_each(|rule| add(&rule.name, &rule.doc));
        }
        "backends" => project.registry.backends().names().for_each(|name| add(name, "a backend")),
        _ => {
            let catalog = project.registry.catalog();
            match field {
                "extractor" => catalog.extractors.names().for_each(|name| add(name, "an extractor")),
                "cost" => catalog.pricings.names().for_each(|name| add(name, "a cost model")),
                "order" => catalog.orders.names().for_each(|name| add(name, "an order of execution")),
                "planner" => catalog.planners.names().for_each(|name| add(name, "a memory planner")),
                _ => {}
            }
        }
    }
}

//! Completion outside of texts: the names of structs and of their fields.

use super::item::Items;
use crate::description;
use crate::document::Document;
use crate::kind::Kind;
use crate::outline::{Frame, Outline};
use lsp_types::CompletionItemKind;
use ovolo::error::Span;
use ovolo::registry::Registry;

/// Adds the names that may stand at a byte outside of texts in quotes.
pub fn complete(registry: &Registry, document: &Document, at: usize, items: &mut Items<'_>) {
    let text = &document.text;
    let Some(before) = text.get(..at) else { return };
    if in_comment(before) {
        return;
    }
    let outline = Outline::read(before);
    // A name that is being written is the last word, without anything behind it.
    let partial = outline.words.last().filter(|word| word.span.end == at);
    let part = partial.map_or(Span::at(at), |word| word.span);
    let open = partial.map_or(&outline.open, |word| &word.within);
    let head = |frame: &Frame| outline.head(before, frame.structure).to_owned();
    // A file without a struct may become any.
    let is_new = document.outline.structs.is_empty();
    match open.last() {
        None if matches!(document.kind, Kind::Pipeline | Kind::Other) && is_new => {
            items.add(
                part,
                CompletionItemKind::STRUCT,
                ("Pipeline", "Pipeline("),
                "an ordered list of passes",
            );
        }
        Some(frame) if frame.open == '[' => {
            let field =
                open.iter().rev().find_map(|frame| frame.field).map_or("", |field| field.slice(before));
            match (document.kind, field) {
                (Kind::Rules, "") => add_struct(part, "Rule", "a rewrite rule", items),
                (Kind::Other, "") if is_new => {
                    add_struct(part, "Rule", "a rewrite rule", items);
                    add_struct(part, "Examples", "the examples of a rule", items);
                }
                (Kind::Examples, "") => add_struct(part, "Examples", "the examples of a rule", items),
                (Kind::Examples, "examples") => {
                    add_struct(part, "Example", "a graph on which the rule fires, or does not", items);
                }
                (Kind::Pipeline, "passes") => {
                    for (name, kind) in registry.catalog().passes.iter() {
                        let settings = kind.fields().join(", ");
                        add_struct(part, name, &format!("a pass, with the settings {settings}"), items);
                    }
                }
                _ => {}
            }
        }
        Some(frame) if frame.open == '(' && frame.field.is_none() => {
            let written: Vec<&str> = outline
                .fields
                .iter()
                .filter(|field| field.parent == frame.structure)
                .map(|field| field.key.slice(before))
                .collect();
            for (name, doc) in description::fields(registry, document.kind, &head(frame)) {
                if !written.contains(&name) {
                    items.add(part, CompletionItemKind::FIELD, (name, &format!("{name}: ")), doc);
                }
            }
        }
        _ => {}
    }
}

fn add_struct(part: Span, name: &str, doc: &str, items: &mut Items<'_>) {
    items.add(part, CompletionItemKind::STRUCT, (name, &format!("{name}(")), doc);
}

/// Returns whether a text ends in a comment up to the end of the line. It does not end within a text in quotes.
fn in_comment(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.match_indices("//").any(|(at, _)| line[..at].matches('"').count().is_multiple_of(2))
}

//! Completion: the names that may stand at a position.

mod field;
mod item;
mod setting;
mod term;

use crate::project::Project;
use crate::symbol;
use item::Items;
use lsp_types::CompletionItem;
use std::path::Path;

/// Returns the names that may stand at a byte of a file.
pub fn complete(project: &mut Project, path: &Path, at: usize) -> Vec<CompletionItem> {
    let Some(document) = project.workspace.get(path).cloned() else { return Vec::new() };
    let mut items = Items::new(project.encoding, &document.text);
    match document.outline.literal_at(at) {
        Some(literal) => {
            let head = document.outline.head(&document.text, literal.parent);
            let field = literal.field.map_or("", |field| field.slice(&document.text));
            match symbol::language(head, field).filter(|_| !literal.is_key) {
                Some(language) => {
                    term::complete(&project.registry, &document, literal, (at, language), &mut items);
                }
                None => setting::complete(project, (path, &document), literal, at, &mut items),
            }
        }
        None => field::complete(&project.registry, &document, at, &mut items),
    }
    items.list
}

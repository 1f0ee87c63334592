//! The places of a name: in its file, and of rules also in other files.

use crate::document::Document;
use crate::kind::Kind;
use crate::project::Project;
use crate::rule_index;
use crate::symbol::{self, Occurrence, Symbol};
use crate::workspace::Workspace;
use ovolo::error::Span;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place in a file.
pub type Place = (PathBuf, Span);

/// Returns all places of the name that an occurrence in a file has, in the order of files and places. The name of an op,
/// an attribute or a guard has its places in this file.
pub fn places(project: &Project, path: &Path, document: &Document, one: &Occurrence) -> Vec<Place> {
    match &one.symbol {
        Symbol::Rule(name) => rule_places(project, name),
        Symbol::Variable(_) | Symbol::Rest(_) | Symbol::Key(_) => scoped(project, path, document, one),
        _ => matching(path, document, |other| other.symbol == one.symbol),
    }
}

fn matching(path: &Path, document: &Document, wanted: impl Fn(&Occurrence) -> bool) -> Vec<Place> {
    let found = symbol::occurrences(document).into_iter().filter(wanted);
    found.map(|other| (path.to_owned(), other.span)).collect()
}

/// Returns the places of the name of a rule, as it is written: in rules, examples and pipelines.
fn rule_places(project: &Project, name: &str) -> Vec<Place> {
    let kinds = [Kind::Rules, Kind::Examples, Kind::Pipeline];
    let files = kinds.into_iter().flat_map(|kind| project.workspace.of_kind(kind));
    let named = |one: &Occurrence| matches!(&one.symbol, Symbol::Rule(other) if other == name);
    files.flat_map(|(path, document)| matching(path, document, named)).collect()
}

/// Returns the places of a variable or a key: in its rule, and in the examples of the rule.
fn scoped(project: &Project, path: &Path, document: &Document, one: &Occurrence) -> Vec<Place> {
    let mut found = Vec::new();
    for (path, document, item) in homes(project, path, document, one.item) {
        found.extend(matching(&path, &document, |other| {
            other.item == Some(item) && other.symbol == one.symbol
        }));
    }
    found
}

/// Returns the structs that have the names of a rule: the rule and its examples, with their files.
pub fn homes(
    project: &Project,
    own: &Path,
    document: &Document,
    own_item: Option<usize>,
) -> Vec<(PathBuf, Arc<Document>, usize)> {
    let is_rules = document.kind == Kind::Rules;
    let name = own_item.and_then(|item| document.outline.name(&document.text, item));
    let name = name.map(|literal| literal.body.slice(&document.text).to_owned());
    let files = match document.kind {
        Kind::Examples => vec![Workspace::rules_of(own), Some(own.to_owned())],
        _ => vec![Some(own.to_owned()), Some(Workspace::examples_of(own))],
    };
    let mut homes = Vec::new();
    for path in files.into_iter().flatten() {
        let Some(document) = project.workspace.get(&path) else { continue };
        for item in 0..document.outline.structs.len() {
            let Document { text, outline, .. } = &**document;
            let is_own = path == own && Some(item) == own_item;
            let named = outline.name(text, item).map(|literal| literal.body.slice(text));
            // Of two rules with one name, only the own one.
            let is_same = name.is_some() && named == name.as_deref() && (path != own || !is_rules);
            if is_own || is_same && outline.structs[item].parent.is_none() {
                homes.push((path.clone(), Arc::clone(document), item));
            }
        }
    }
    homes
}

/// Returns where the name that an occurrence has is defined.
pub fn definition(project: &mut Project, path: &Path, document: &Document, one: &Occurrence) -> Vec<Place> {
    match &one.symbol {
        Symbol::Rule(name) => rule_definition(project, name),
        Symbol::Variable(_) | Symbol::Rest(_) | Symbol::Key(_) => {
            // Where keys are given values, and where variables are bound. The values of keys may name variables.
            let fields: &[&str] = match one.symbol {
                Symbol::Key(_) => &["for_each", "for_functions"],
                _ => &["from", "let", "to"],
            };
            let rank = |field: &str| fields.iter().position(|known| *known == field);
            let all =
                homes(project, path, document, one.item).into_iter().flat_map(|(path, document, item)| {
                    let same =
                        move |other: &Occurrence| other.item == Some(item) && other.symbol == one.symbol;
                    let found = symbol::occurrences(&document).into_iter().filter(same);
                    found
                        .map(|other| (rank(&other.field).unwrap_or(usize::MAX), path.clone(), other.span))
                        .collect::<Vec<_>>()
                });
            // The first of those with the lowest rank.
            all.min_by_key(|(rank, ..)| *rank).map(|(_, path, span)| (path, span)).into_iter().collect()
        }
        Symbol::Op(name) | Symbol::Step(name) => function_definition(project, name),
        _ => Vec::new(),
    }
}

/// Returns the rules of a name, or of a file of this name.
fn rule_definition(project: &mut Project, name: &str) -> Vec<Place> {
    let written = rule_index::places(&project.workspace, name);
    if !written.is_empty() {
        return written;
    }
    let rules = project.rules.called(&project.registry, &project.workspace, name);
    let mut found: Vec<Place> = rules
        .iter()
        .filter_map(|rule| Some((project.workspace.path(&rule.file)?, rule.places.name)))
        .collect();
    // The rules of one row share the place of their name.
    found.dedup();
    if rules.iter().any(|rule| rule.stem() == name) {
        found.dedup_by(|one, other| one.0 == other.0);
        found.iter_mut().for_each(|(_, span)| *span = Span::at(0));
    }
    found
}

/// Returns the row of a table of functions that defines an op.
fn function_definition(project: &Project, name: &str) -> Vec<Place> {
    let of = |(path, document): (&Path, &Arc<Document>)| {
        matching(path, document, |one| {
            one.field == "name" && matches!(&one.symbol, Symbol::Op(other) if other == name)
        })
    };
    project.workspace.of_kind(Kind::Functions).flat_map(of).collect()
}

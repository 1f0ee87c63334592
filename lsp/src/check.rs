//! The mistakes in open files: what stops rules, examples, pipelines and tables from being read.

use crate::document::Document;
use crate::kind::Kind;
use crate::message::{self, Messages, Weight};
use crate::project::Project;
use ovolo::error::{Diagnostics, Source};
use ovolo::pass::Scope;
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo::scalar::{self, Function};
use ovolo::setting::Folder;
use ovolo::{Pipeline, ron};
use std::path::Path;

/// Returns the mistakes of all rules and examples of a folder.
pub fn rules(project: &Project, folder: &Path) -> Messages {
    let members = project.members(folder);
    let files: Vec<(String, &str)> = members
        .iter()
        .map(|(path, document)| (project.workspace.name(path), document.text.as_str()))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let (_, found) = RuleSet::read_right(project.registry.vocabulary(), &files);
    messages(project, &found)
}

/// Returns the mistakes of a file that is read on its own. `saved` says whether its text is that of the file on the
/// disk: functions are read only then, since the framework keeps each one until the process ends.
pub fn file(project: &mut Project, path: &Path, document: &Document, saved: bool) -> Messages {
    let name = project.workspace.name(path);
    let found = match document.kind {
        Kind::Pipeline => pipeline(project, path, &name, &document.text),
        Kind::Prices => {
            let prices = &project.registry.catalog().prices;
            prices.with(&[Source::new(name, document.text.as_str())]).err()
        }
        Kind::Functions if saved => Some(functions(&project.registry, &name, document)),
        _ => Some(syntax(&name, &document.text)),
    };
    messages(project, &found.unwrap_or_default())
}

fn messages(project: &Project, found: &Diagnostics) -> Messages {
    let mut messages = Messages::new();
    message::add(&mut messages, found, |_| Weight::MISTAKE, (&project.workspace, project.encoding));
    messages
}

fn pipeline(project: &mut Project, path: &Path, name: &str, text: &str) -> Option<Diagnostics> {
    let registry = &project.registry;
    let rules = project.rules.all(registry, &project.workspace);
    let read = |path: &Path| project.workspace.read(path);
    let scope = Scope {
        rules: Some(&rules),
        folder: Folder { path: path.parent(), read: &read },
        ..registry.scope()
    };
    Pipeline::read(&scope, name, text).err()
}

/// Reads a table of functions. Its formulas may name the functions of the registry, except those that the table itself
/// defines.
fn functions(registry: &Registry, name: &str, document: &Document) -> Diagnostics {
    let Document { text, outline, .. } = document;
    let own: Vec<&str> =
        (0..outline.structs.len()).filter_map(|at| Some(outline.name(text, at)?.body.slice(text))).collect();
    let others: Vec<Function> = registry.ops().functions().filter(|one| !own.contains(&one.name())).collect();
    let mut found = Diagnostics::new();
    scalar::read(&Source::new(name, text.as_str()), &others, &mut found);
    found
}

fn syntax(name: &str, text: &str) -> Diagnostics {
    let mut found = Diagnostics::for_text(name, text);
    ron::Reader::new(&mut found, 0).document(text);
    found
}

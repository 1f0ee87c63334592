//! The rules of a workspace by their names, for pipelines and examples that name them.

use crate::document::Document;
use crate::kind::Kind;
use crate::outline::Outline;
use crate::workspace::Workspace;
use ovolo::error::Span;
use ovolo::registry::Registry;
use ovolo::rule::{Rule, RuleSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rules of a workspace with those that the registry ships.
#[derive(Debug)]
pub struct RuleIndex {
    shipped: Arc<RuleSet>,
    all: Arc<RuleSet>,
    revision: Option<u64>,
}

impl RuleIndex {
    /// Returns the rules of a registry.
    pub fn new(registry: &Registry) -> Self {
        let texts = registry.rules().iter().chain(registry.examples().iter());
        let files: Vec<(&str, &str)> = texts.map(|(name, text)| (name, &**text)).collect();
        // The registry's own rules are checked where they are made. Those with mistakes are not known here.
        let shipped = Arc::new(RuleSet::read_right(registry.vocabulary(), &files).0);
        Self { all: Arc::clone(&shipped), shipped, revision: None }
    }

    /// Returns the rules that the registry ships.
    pub fn shipped(&self) -> &Arc<RuleSet> {
        &self.shipped
    }

    /// Returns all rules. They are read again if a file has changed.
    pub fn all(&mut self, registry: &Registry, workspace: &Workspace) -> Arc<RuleSet> {
        if self.revision != Some(workspace.revision()) {
            let files: Vec<(String, &Document)> = workspace
                .of_kind(Kind::Rules)
                .map(|(path, document)| (workspace.name(path), &**document))
                .collect();
            let files: Vec<(&str, &str)> =
                files.iter().map(|(name, document)| (name.as_str(), document.text.as_str())).collect();
            let (own, _) = RuleSet::read_right(registry.vocabulary(), &files);
            self.all = Arc::new(own.beside(&self.shipped));
            self.revision = Some(workspace.revision());
        }
        Arc::clone(&self.all)
    }

    /// Returns the rules that a name in a pipeline stands for.
    pub fn called(&mut self, registry: &Registry, workspace: &Workspace, name: &str) -> Vec<Arc<Rule>> {
        let all = self.all(registry, workspace);
        all.rules().iter().filter(|rule| rule.is_called(name) || rule.written == name).cloned().collect()
    }
}

/// Returns the rules of a file by the names that they give themselves, with `$key` as it is written.
pub fn names(document: &Document) -> impl Iterator<Item = (usize, Span)> {
    let Document { text, outline, .. } = document;
    let rules = outline.structs.iter().enumerate().filter(|(_, one)| one.head.slice(text) == "Rule");
    rules.filter_map(|(at, _)| Some((at, named(text, outline, at)?)))
}

fn named(text: &str, outline: &Outline, structure: usize) -> Option<Span> {
    outline.name(text, structure).map(|literal| literal.body)
}

/// Returns the files of the workspace that have a rule of this name, as it is written, with its place.
pub fn places(workspace: &Workspace, name: &str) -> Vec<(PathBuf, Span)> {
    let of = |(path, document): (&Path, &Arc<Document>)| {
        let here: Vec<(PathBuf, Span)> = names(document)
            .filter(|(_, span)| span.slice(&document.text) == name)
            .map(|(_, span)| (path.to_owned(), span))
            .collect();
        here
    };
    workspace.of_kind(Kind::Rules).flat_map(of).collect()
}

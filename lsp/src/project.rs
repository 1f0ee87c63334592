//! What the server knows: the registry, the files, the rules in them, and how the client counts positions.

use crate::document::Document;
use crate::encoding::Encoding;
use crate::kind::Kind;
use crate::rule_index::RuleIndex;
use crate::workspace::Workspace;
use ovolo::registry::Registry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state that requests ask about.
pub struct Project {
    /// The ops, guards, passes and files of rules that there are.
    pub registry: Arc<Registry>,
    /// The files.
    pub workspace: Workspace,
    /// The rules in the files.
    pub rules: RuleIndex,
    /// How positions are counted.
    pub encoding: Encoding,
}

impl Project {
    /// Returns the state for the folders of an editor.
    pub fn new(registry: Arc<Registry>, roots: Vec<PathBuf>, encoding: Encoding) -> Self {
        let rules = RuleIndex::new(&registry);
        Self { registry, workspace: Workspace::new(roots), rules, encoding }
    }

    /// Returns the folder of rules that a file of rules or examples belongs to.
    pub fn unit(path: &Path, document: &Document) -> Option<PathBuf> {
        match document.kind {
            Kind::Rules => path.parent().map(Path::to_owned),
            Kind::Examples => Workspace::rules_of(path)?.parent().map(Path::to_owned),
            _ => None,
        }
    }

    /// Returns the files of rules in a folder, with their examples.
    pub fn members(&self, folder: &Path) -> Vec<(PathBuf, Arc<Document>)> {
        let rules = self.workspace.of_kind(Kind::Rules).filter(|(path, _)| path.parent() == Some(folder));
        let mut members: Vec<(PathBuf, Arc<Document>)> =
            rules.map(|(path, document)| (path.to_owned(), Arc::clone(document))).collect();
        for at in 0..members.len() {
            let beside = Workspace::examples_of(&members[at].0);
            if let Some(document) = self.workspace.get(&beside) {
                members.push((beside, Arc::clone(document)));
            }
        }
        members
    }
}

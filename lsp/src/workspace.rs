//! The files of the folders that the editor has open. A text in the editor takes precedence over the file on the disk.

use crate::document::Document;
use crate::kind::Kind;
use ovolo::rule;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders in which files are not looked for, besides those whose names begin with a dot.
const SKIPPED: &[&str] = &["target", "node_modules"];

/// The most folders that are looked into: an editor may have a whole disk open.
const MOST_FOLDERS: usize = 20_000;

/// The files by their paths.
#[derive(Debug, Default)]
pub struct Workspace {
    roots: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Arc<Document>>,
    open: BTreeMap<PathBuf, Arc<Document>>,
    /// Rises with every change of a file.
    revision: u64,
}

impl Workspace {
    /// Reads the RON files of some folders.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        let mut workspace = Self { roots, ..Self::default() };
        let mut left = MOST_FOLDERS;
        for root in workspace.roots.clone() {
            workspace.look(&root, &mut left);
        }
        workspace
    }

    /// Returns a number that rises with every change of a file.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Reads the RON files of a folder and of those in it. `left` is the number of folders that may still be read.
    fn look(&mut self, folder: &Path, left: &mut usize) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(listed) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_link = path.symlink_metadata().is_ok_and(|data| data.is_symlink());
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() && !is_link && !SKIPPED.contains(&name.as_str()) {
                self.look(&path, left);
            } else if is_ron(&path) {
                self.refresh(&path);
            }
        }
    }

    /// Reads a file again that was changed, made or deleted on the disk.
    pub fn refresh(&mut self, path: &Path) {
        self.revision += 1;
        match std::fs::read_to_string(path) {
            Ok(text) if is_ron(path) => {
                self.files.insert(path.to_owned(), Arc::new(Document::new(path, text, None)));
            }
            _ => {
                self.files.remove(path);
            }
        }
    }

    /// Takes the text of a file in the editor. Rules and examples that belong to a file outside of the editor's folders
    /// are read as well.
    pub fn open(&mut self, path: PathBuf, document: Document) {
        self.revision += 1;
        if !self.is_open(&path) && !self.roots.iter().any(|root| path.starts_with(root)) {
            let beside = match document.kind {
                Kind::Examples => Self::rules_of(&path),
                _ => Some(Self::examples_of(&path)),
            };
            for folder in
                [Some(&path), beside.as_ref()].into_iter().flatten().filter_map(|path| path.parent())
            {
                self.look(folder, &mut 1);
            }
        }
        self.open.insert(path, Arc::new(document));
    }

    /// Forgets the text of a file in the editor, so that the file on the disk counts.
    pub fn close(&mut self, path: &Path) {
        self.open.remove(path);
        self.refresh(path);
    }

    /// Returns whether the editor has a file open.
    pub fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// Returns the files that the editor has open.
    pub fn opened(&self) -> impl Iterator<Item = (&Path, &Arc<Document>)> {
        self.open.iter().map(|(path, document)| (path.as_path(), document))
    }

    /// Returns a file, as the editor has it or as it is on the disk.
    pub fn get(&self, path: &Path) -> Option<&Arc<Document>> {
        self.open.get(path).or_else(|| self.files.get(path))
    }

    /// Returns the text of a file, also of one that is in no folder of the editor.
    ///
    /// # Errors
    /// If there is no such file, or it is not text.
    pub fn read(&self, path: &Path) -> std::io::Result<String> {
        match self.get(path) {
            Some(document) => Ok(document.text.clone()),
            None => std::fs::read_to_string(path),
        }
    }

    /// Returns all files of a kind, in the order of their paths.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Path, &Arc<Document>)> {
        let closed = self.files.iter().filter(|(path, _)| !self.open.contains_key(*path));
        let mut all: Vec<_> = closed.chain(&self.open).filter(|(_, one)| one.kind == kind).collect();
        all.sort_by_key(|(path, _)| *path);
        all.into_iter().map(|(path, document)| (path.as_path(), document))
    }

    /// Returns the name of a file in messages: its path from the first folder of the editor, or its whole path if it is
    /// not in there, so that no two files have one name.
    pub fn name(&self, path: &Path) -> String {
        let inside = self.roots.first().and_then(|root| path.strip_prefix(root).ok());
        inside.unwrap_or(path).display().to_string()
    }

    /// Returns the path of a file by its name in messages.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let known = |path: &PathBuf| self.get(path).is_some();
        let inside = self.roots.first().map(|root| root.join(name)).filter(known);
        inside.or_else(|| Some(PathBuf::from(name)).filter(known))
    }

    /// Returns the path of the examples of a file of rules.
    pub fn examples_of(path: &Path) -> PathBuf {
        PathBuf::from(rule::beside(&path.display().to_string()))
    }

    /// Returns the file of rules of a file of examples.
    pub fn rules_of(path: &Path) -> Option<PathBuf> {
        Some(path.parent()?.parent()?.join(path.file_name()?))
    }
}

fn is_ron(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ron")
}

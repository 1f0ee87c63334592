//! Finds the modules of a crate and what they use from each other, by the paths in their files.
//!
//! A path is followed through imports and re-exports to the file that defines its target. Unit tests do not
//! count, nor does the use of a parent module: a module and its children are one.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A module's path from the root of its crate.
pub type Name = Vec<String>;

/// What modules use from each other: the using module, the used module, and the names.
pub type Ties = BTreeMap<(String, String), BTreeSet<String>>;

/// The most re-exports of re-exports that are followed.
const HOPS: usize = 8;

/// The contents of one file.
#[derive(Default)]
struct File {
    /// The child modules that have files of their own.
    children: BTreeSet<String>,
    /// The imported names, each with its path and whether it is a re-export.
    imports: BTreeMap<String, (Vec<String>, bool)>,
    /// Modules from which it imports everything.
    globs: Vec<Vec<String>>,
    /// The paths in its code. Single names count, because they may be imported.
    paths: BTreeSet<Vec<String>>,
    /// The nesting depth of inline modules at the present item.
    depth: usize,
}

/// The modules of a crate.
pub struct Modules {
    files: BTreeMap<Name, File>,
}

impl Modules {
    /// Reads a crate from the text of each file and its path relative to the root's folder. The root is
    /// `lib.rs`, or `main.rs` if there is no library.
    pub fn read(files: &[(&str, &str)]) -> Self {
        let root = if files.iter().any(|(path, _)| *path == "lib.rs") { "lib" } else { "main" };
        let one = |(path, text): &(&str, &str)| {
            let path = path.strip_suffix(".rs").unwrap_or(path);
            let name = if path == root { Name::new() } else { path.split('/').map(str::to_owned).collect() };
            let mut file = File::default();
            file.visit_file(&syn::parse_file(text).unwrap_or_else(|why| panic!("{path}.rs: {why}")));
            (name, file)
        };
        let mut files: BTreeMap<Name, File> = files.iter().map(one).collect();
        // A file that no module declares is a separate program or belongs to unit tests.
        let mut declared = BTreeSet::from([Name::new()]);
        let mut open = vec![Name::new()];
        while let Some(name) = open.pop() {
            for child in files.get(&name).into_iter().flat_map(|file| &file.children) {
                let child: Name = name.iter().chain([child]).cloned().collect();
                declared.insert(child.clone());
                open.push(child);
            }
        }
        files.retain(|name, _| declared.contains(name));
        Self { files }
    }

    /// Returns what the files use from each other.
    pub fn ties(&self) -> Ties {
        let mut ties = Ties::new();
        for (name, file) in &self.files {
            for path in file.taken() {
                let Some((from, item)) = self.home(name, &path) else { continue };
                if !name.starts_with(&from) {
                    ties.entry((shown(name), shown(&from))).or_default().insert(item);
                }
            }
        }
        ties
    }

    /// Returns the module that defines the target of a path in a file, and the target's name; `None` if it is
    /// in another crate.
    pub fn home(&self, at: &[String], path: &[String]) -> Option<(Name, String)> {
        self.home_within(HOPS, at, path)
    }

    fn home_within(&self, hops: usize, at: &[String], path: &[String]) -> Option<(Name, String)> {
        let (mut module, mut rest) = (at.to_vec(), path);
        match rest.first()?.as_str() {
            "crate" => (module, rest) = (Name::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    module.pop()?;
                    rest = &rest[1..];
                }
            }
            child if self.files.get(at)?.children.contains(child) => {}
            _ => return None,
        }
        while let Some(next) = rest.first() {
            module.push(next.clone());
            if !self.files.contains_key(&module) {
                module.pop();
                break;
            }
            rest = &rest[1..];
        }
        let item = rest.first().or(module.last()).cloned().unwrap_or_default();
        match rest.first().and_then(|name| self.files.get(&module)?.imports.get(name)) {
            Some((import, _)) if hops > 0 => {
                let path: Vec<String> = import.iter().chain(&rest[1..]).cloned().collect();
                self.home_within(hops - 1, &module, &path)
            }
            _ => Some((module, item)),
        }
    }
}

fn shown(name: &[String]) -> String {
    if name.is_empty() { "lib".to_owned() } else { name.join("/") }
}

/// Returns each set of modules that depend on each other, directly or indirectly.
pub fn circles(ties: &Ties) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in ties.keys() {
        next.entry(from).or_default().insert(to);
    }
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for &from in next.keys() {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(next.get(at).into_iter().flatten().filter(|to| found.insert(**to)));
        }
        reached.insert(from, found);
    }
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (from, found) in reached.iter().filter(|(from, found)| found.contains(*from)) {
        let back = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
        let circle: BTreeSet<String> = found.iter().filter(back).map(|to| (*to).to_owned()).collect();
        if !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// Returns what the children of a module use from each other, each together with its own children. The root
/// is `""`.
pub fn within(ties: &Ties, module: &str) -> Ties {
    let part = |name: &str| {
        let rest = if module.is_empty() { name } else { name.strip_prefix(module)?.strip_prefix('/')? };
        Some(rest.split('/').next().unwrap_or(rest).to_owned())
    };
    let mut found = Ties::new();
    for ((from, to), names) in ties {
        if let (Some(from), Some(to)) = (part(from), part(to))
            && from != to
        {
            found.entry((from, to)).or_default().extend(names.iter().cloned());
        }
    }
    found
}

impl File {
    /// Returns the paths that the file uses. An import counts as the names that are used from it. An import
    /// that is not named again counts by itself, as for traits of which only methods are called; a re-export
    /// that the file does not use does not count.
    fn taken(&self) -> Vec<Vec<String>> {
        let mut used = BTreeSet::new();
        let mut taken = self.globs.clone();
        for path in &self.paths {
            match self.imports.get(&path[0]) {
                Some((import, _)) => {
                    used.insert(&path[0]);
                    taken.push(import.iter().chain(&path[1..]).cloned().collect());
                }
                None => taken.push(path.clone()),
            }
        }
        let unnamed = self.imports.iter().filter(|(name, (_, export))| !export && !used.contains(name));
        taken.extend(unnamed.map(|(_, (path, _))| path.clone()));
        taken
    }

    /// Returns a path as it would be written outside the file's inline modules.
    fn outside(&self, mut path: Vec<String>) -> Vec<String> {
        for _ in 0..self.depth {
            if path.first().is_some_and(|first| first == "super") {
                path.remove(0);
            }
        }
        path
    }

    fn note(&mut self, path: Vec<String>) {
        let path = self.outside(path);
        if !path.is_empty() {
            self.paths.insert(path);
        }
    }

    /// Notes the paths among the tokens of a macro call.
    fn tokens(&mut self, stream: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in stream {
            let colon = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':');
            let goes_on = match &token {
                TokenTree::Ident(_) => colons == 2,
                _ => colon && colons < 2,
            };
            if !goes_on && !path.is_empty() {
                self.note(std::mem::take(&mut path));
            }
            colons = if colon { colons + 1 } else { 0 };
            match token {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
        if !path.is_empty() {
            self.note(path);
        }
    }
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            self.children.insert(item.ident.to_string());
        } else {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let export = !matches!(item.vis, syn::Visibility::Inherited);
        for (path, name) in imports(&item.tree, &[]) {
            let path = self.outside(path);
            match name {
                _ if path.is_empty() => {}
                Some(name) => drop(self.imports.insert(name, (path, export))),
                None if export => {}
                None => self.globs.push(path),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.tokens(call.tokens.clone());
    }
}

/// Whether an attribute limits an item to unit tests.
pub fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

/// The imports of a `use`: paths, and the names they are imported as; no name if everything is imported.
pub fn imports(tree: &syn::UseTree, before: &[String]) -> Vec<(Vec<String>, Option<String>)> {
    let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
    match tree {
        syn::UseTree::Path(path) => imports(&path.tree, &with(&path.ident)),
        syn::UseTree::Name(name) if name.ident == "self" => vec![(before.to_vec(), before.last().cloned())],
        syn::UseTree::Name(name) => vec![(with(&name.ident), Some(name.ident.to_string()))],
        syn::UseTree::Rename(name) => vec![(with(&name.ident), Some(name.rename.to_string()))],
        syn::UseTree::Glob(_) => vec![(before.to_vec(), None)],
        syn::UseTree::Group(group) => group.items.iter().flat_map(|tree| imports(tree, before)).collect(),
    }
}

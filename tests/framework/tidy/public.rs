//! The public names of a crate: the items that code outside of it can name.

use super::modules::{Modules, Name, imports};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Visibility};

/// What a file makes public.
#[derive(Default)]
struct File {
    /// The items that it defines.
    items: BTreeSet<String>,
    /// The paths that it exports again.
    exports: Vec<Vec<String>>,
    /// The child modules that have files of their own.
    children: BTreeSet<String>,
}

/// Returns the public items of a crate, each by the path of its definition and counted once, however many paths lead
/// to it. Items that the documentation hides do not count. The files are given as for [`Modules::read`].
///
/// # Panics
/// If a file exports everything of another module, so that the names cannot be counted.
pub fn public_names(files: &[(&str, &str)]) -> BTreeSet<String> {
    let modules = Modules::read(files);
    let texts: BTreeMap<Name, &str> = files
        .iter()
        .map(|(path, text)| {
            let path = path.strip_suffix(".rs").unwrap_or(path);
            (if path == "lib" { Name::new() } else { path.split('/').map(str::to_owned).collect() }, *text)
        })
        .collect();
    let mut found = BTreeSet::new();
    let mut open = vec![Name::new()];
    while let Some(name) = open.pop() {
        let file = read(texts[&name]);
        let own = |item: &String| name.iter().chain([item]).cloned().collect::<Name>();
        found.extend(file.items.iter().map(|item| own(item).join("::")));
        for path in &file.exports {
            let target = modules.home(&name, path);
            found.insert(target.map_or_else(
                || path.join("::"),
                |(mut module, item)| {
                    module.push(item);
                    module.join("::")
                },
            ));
        }
        open.extend(file.children.iter().map(own));
    }
    found
}

fn read(text: &str) -> File {
    let mut file = File::default();
    for item in syn::parse_file(text).unwrap_or_else(|why| panic!("{why}")).items {
        let (visibility, attributes, name) = match &item {
            Item::Const(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
            Item::Mod(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Static(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Type(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Union(item) => (&item.vis, &item.attrs, &item.ident),
            Item::Macro(item) => {
                file.items.extend(in_tokens(item.mac.tokens.clone()));
                continue;
            }
            Item::Use(item) => {
                if matches!(item.vis, Visibility::Public(_)) {
                    for (path, name) in imports(&item.tree, &[]) {
                        assert!(name.is_some(), "`pub use {}::*` cannot be counted", path.join("::"));
                        file.exports.push(path);
                    }
                }
                continue;
            }
            _ => continue,
        };
        let hidden = attributes.iter().any(|attribute| {
            matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("doc") && list.tokens.to_string() == "hidden")
        });
        if !matches!(visibility, Visibility::Public(_)) || hidden {
            continue;
        }
        let names = if matches!(item, Item::Mod(_)) { &mut file.children } else { &mut file.items };
        names.insert(name.to_string());
    }
    file
}

/// Returns the names of public items that a macro writes out. Names that it takes as parameters are not seen.
fn in_tokens(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(word)) => word.to_string(),
        _ => String::new(),
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(in_tokens(group.stream())),
            TokenTree::Ident(first)
                if first == "pub"
                    && ["enum", "struct", "trait", "type"].contains(&word(at + 1).as_str())
                    && !word(at + 2).is_empty() =>
            {
                found.push(word(at + 2));
            }
            _ => {}
        }
    }
    found
}

//! The links of the documentation lead somewhere, and the book has all pages.
#![allow(clippy::unwrap_used)]

use crate::common::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the pages of the repository with their texts, by their paths.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if name.starts_with('.') || ["target", "node_modules"].contains(&&*name) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if name.ends_with(".md") {
                let text = std::fs::read_to_string(&path).unwrap();
                pages.insert(path, text);
            }
        }
    }
    pages
}

/// Returns the lines of a page that are no code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    page.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Returns the targets of a page's links.
fn links(page: &str) -> Vec<&str> {
    let targets = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    prose(page).flat_map(targets).collect()
}

/// Returns the names by which links lead to the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let keeps = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    headings
        .map(|heading| heading.to_lowercase().chars().filter(keeps).collect::<String>().replace(' ', "-"))
        .collect()
}

/// Returns what is wrong with a link of a page; `None` if it leads somewhere.
fn wrong(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => match page.parent()?.join(file).canonicalize() {
            Ok(target) => target,
            Err(why) => return Some(format!("{}: {link}: {why}", page.display())),
        },
    };
    let found = anchor.is_empty()
        || pages.get(&target).is_some_and(|page| anchors(page).iter().any(|name| name == anchor));
    (!found).then(|| format!("{}: {link}: no such heading", page.display()))
}

#[test]
fn links_lead_somewhere() {
    let pages: BTreeMap<PathBuf, String> =
        pages().into_iter().map(|(path, text)| (path.canonicalize().unwrap(), text)).collect();
    let all: Vec<(&PathBuf, &str)> =
        pages.iter().flat_map(|(path, text)| links(text).into_iter().map(move |link| (path, link))).collect();
    assert!(all.len() > 100, "only {} links were found", all.len());
    let lost: Vec<String> = all.iter().filter_map(|(path, link)| wrong(path, link, &pages)).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn lost_links_are_found() {
    let (here, page) =
        (root().join("docs/PAGE.md"), "# A `b` c\n```\n# Code\n```\n[x](#a-b-c) [y](RULES.md)");
    let pages = BTreeMap::from([(here.clone(), page.to_owned())]);
    assert_eq!(links(page), ["#a-b-c", "RULES.md"]);
    assert_eq!(links(page).iter().find_map(|link| wrong(&here, link, &pages)), None);
    for lost in ["#code", "ABSENT.md", "RULES.md#absent"] {
        assert!(wrong(&here, lost, &pages).is_some(), "{lost}");
    }
}

#[test]
fn the_book_has_all_pages() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed = links(&summary);
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        // The folder of pictures is no page.
        let is_folder = entry.file_type().unwrap().is_dir();
        assert!(
            is_folder || name == "SUMMARY.md" || listed.contains(&&*name),
            "docs/SUMMARY.md does not list {name}"
        );
    }
}

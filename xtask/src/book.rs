//! `cargo xtask book`: builds the documentation as a book, with mdBook.
//!
//! `docs/SUMMARY.md` lists the pages. They are copied with their folders, so that links between them stay as they are. A
//! link to another file of the repository becomes one to its page on the web. The pages of rules are written by ovolo
//! itself, which verifies each rule and prices the plans of ten networks without it.

use crate::python::{build_folder, command, remove, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The version of mdBook that is installed where it is absent.
const VERSION: &str = "0.5.4";

/// Where the files of the repository are on the web.
const FILES: &str = "https://github.com/ovolo/ovolo/blob/main/";

/// The settings of mdBook.
const SETTINGS: &str = r#"[book]
title = "Ovolo"
description = "A compiler for neural networks whose decisions are rules in text files"
language = "en"

[output.html]
git-repository-url = "https://github.com/ovolo/ovolo"
no-section-label = true

[output.html.fold]
enable = true
level = 0
"#;

/// The folder of the pages of rules in the book.
const RULES: &str = "rules/pages";

/// Copies the pages, writes those of rules, and builds the book in the build folder. The words are for Cargo, which builds
/// ovolo.
pub fn run(words: &[String]) -> Result<(), String> {
    let folder = build_folder().join("book");
    // What is left of another time would become part of the book.
    remove(&folder)?;
    let summary = read(Path::new("docs/SUMMARY.md"))?;
    let pages = pages(&summary);
    for page in &pages {
        write(&folder.join("src").join(page), &rewritten(page, &read(page)?, &pages))?;
    }
    let rules = rules(&folder, words)?;
    write(&folder.join("src/SUMMARY.md"), &listed(&summary).replace(RULES_HERE, &rules))?;
    write(&folder.join("book.toml"), SETTINGS)?;
    let mut build = Command::new(mdbook()?);
    build.arg("build").arg(&folder);
    command(&mut build)?;
    println!("{}", folder.join("book/index.html").display());
    Ok(())
}

/// The line of the summary after which the pages of rules are listed.
const RULES_HERE: &str = "  - [Ops, guards and computed attributes](rules/REFERENCE.md)\n";

/// Writes the pages of rules. Returns their lines of the summary.
fn rules(folder: &Path, words: &[String]) -> Result<String, String> {
    let mut build = Command::new(env!("CARGO"));
    // As the tests are built, so that nothing is built twice.
    command(build.current_dir(root()).args(["build", "--release", "--workspace"]).args(words))?;
    let ovolo = build_folder().join("release/ovolo");
    let mut models: Vec<PathBuf> = fs::read_dir(root().join("tests/models"))
        .map_err(|error| format!("tests/models: {error}"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "onnx"))
        .collect();
    models.sort();
    let worth = folder.join("worth.json");
    let mut ablate = Command::new(&ovolo);
    ablate.args(["rules", "ablate", "--json", "--seeded-weights"]).args(&models);
    let output = ablate.output().map_err(|error| format!("{}: {error}", ovolo.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    write(&worth, &String::from_utf8_lossy(&output.stdout))?;
    let pages = folder.join("src").join(RULES);
    let mut write_pages = Command::new(&ovolo);
    command(write_pages.args(["rules", "pages", "--worth"]).arg(&worth).arg("--out").arg(&pages))?;
    let list = fs::read_to_string(pages.join("README.md")).map_err(|error| format!("{RULES}: {error}"))?;
    Ok(RULES_HERE.to_owned() + &chapters(&list))
}

/// Returns the lines of a summary for the pages that a list of rules has, a chapter for each file of rules.
fn chapters(list: &str) -> String {
    let mut lines = format!("  - [The shipped rules]({RULES}/README.md)\n");
    for line in list.lines() {
        if let Some(file) = line.strip_prefix("## ") {
            lines += &format!("    - [{file}]()\n");
        } else if let Some((name, rest)) = line.strip_prefix("- [").and_then(|line| line.split_once("](")) {
            let path = rest.split(')').next().unwrap_or_default();
            lines += &format!("      - [{name}]({RULES}/{path})\n");
        }
    }
    lines
}

/// Returns the program, which is installed in the build folder where it is absent.
fn mdbook() -> Result<PathBuf, String> {
    let tools = build_folder().join("mdbook");
    let program = tools.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION));
    if !found {
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "mdbook", "--locked", "--no-default-features", "--features", "search"]);
        command(install.args(["--version", VERSION, "--root"]).arg(&tools))?;
    }
    Ok(program)
}

/// Returns the text of a file of the repository.
fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the pages that a summary lists, as paths in the repository.
fn pages(summary: &str) -> BTreeSet<PathBuf> {
    let mut pages = BTreeSet::new();
    each_link(summary, |link| {
        pages.insert(joined(Path::new("docs"), link));
        link.to_owned()
    });
    pages
}

/// Returns the summary with the paths that pages have in the book.
fn listed(summary: &str) -> String {
    each_link(summary, |link| joined(Path::new("docs"), link).display().to_string())
}

/// Returns a page whose links lead to pages of the book, or to the web.
fn rewritten(page: &Path, text: &str, pages: &BTreeSet<PathBuf>) -> String {
    each_link(text, |link| {
        let file = link.split('#').next().unwrap_or_default();
        let target = joined(page.parent().unwrap_or(Path::new("")), file);
        let stays = file.is_empty() || link.contains("://") || pages.contains(&target);
        if stays { link.to_owned() } else { format!("{FILES}{}{}", target.display(), &link[file.len()..]) }
    })
}

/// Returns a path relative to a folder, without `..`.
fn joined(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// Returns a text with the target of each link replaced. Code is left as it is.
fn each_link(text: &str, mut replace: impl FnMut(&str) -> String) -> String {
    let mut result = String::new();
    let mut code = false;
    for line in text.split_inclusive('\n') {
        code ^= line.starts_with("```");
        let mut rest = line;
        while let Some(at) = rest.find("](").filter(|_| !code) {
            let (before, link) = rest.split_at(at + 2);
            let Some(end) = link.find(')') else { break };
            result += before;
            result += &replace(&link[..end]);
            rest = &link[end..];
        }
        result += rest;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_rules_is_a_chapter() {
        let list = "# Rules\n\n## fuse\n\n- [a-$b](fuse/a-b.md): the law (of `x`)\n";
        let expected = "  - [The shipped rules](rules/pages/README.md)\n    - [fuse]()\n      - [a-$b](rules/pages/fuse/a-b.md)\n";
        assert_eq!(chapters(list), expected);
        let summary = listed(&read(Path::new("docs/SUMMARY.md")).unwrap_or_default());
        assert!(summary.contains(RULES_HERE), "{summary}");
    }

    #[test]
    fn links_lead_into_the_book_or_to_the_web() {
        let pages = pages("[Top](../README.md)\n- [Rules](RULES.md)\n");
        assert_eq!(pages, ["README.md", "docs/RULES.md"].map(PathBuf::from).into());
        assert_eq!(listed("- [Rules](RULES.md)\n"), "- [Rules](docs/RULES.md)\n");
        let page = "[a](../README.md#top), [b](#here), [c](https://x.org), [d](../src/lib.rs) and [e](ABSENT.md#part)\n```\n[f](g)\n```\n";
        let expected = "[a](../README.md#top), [b](#here), [c](https://x.org), \
            [d](https://github.com/ovolo/ovolo/blob/main/src/lib.rs) and \
            [e](https://github.com/ovolo/ovolo/blob/main/docs/ABSENT.md#part)\n```\n[f](g)\n```\n";
        assert_eq!(rewritten(Path::new("docs/RULES.md"), page, &pages), expected);
    }
}

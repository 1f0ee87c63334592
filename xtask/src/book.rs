//! `cargo xtask book`: builds the documentation as a book, with mdBook.
//!
//! `docs/SUMMARY.md` lists the pages. They are copied with their folders, so that links between them stay as they are. A
//! link to another file of the repository becomes one to its page on the web. The pages of rules are written by ovolo
//! itself, which verifies each rule and prices the plans of ten networks without it.

use crate::python::{build_folder, command, remove, root};
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
        let text = read(page)?;
        write(&folder.join("src").join(page), rewritten(page, &text, &pages))?;
        for picture in pictures(page, &text) {
            let bytes =
                fs::read(root().join(&picture)).map_err(|error| format!("{}: {error}", picture.display()))?;
            write(&folder.join("src").join(&picture), bytes)?;
        }
    }
    let rules = rules(&folder, words)?;
    write(&folder.join("src/SUMMARY.md"), listed(&summary).replace(RULES_HERE, &rules))?;
    write(&folder.join("book.toml"), SETTINGS)?;
    let mut build = Command::new(mdbook()?);
    build.arg("build").arg(&folder);
    command(&mut build)?;
    check(&folder.join("book"))?;
    println!("{}", folder.join("book/index.html").display());
    Ok(())
}

/// Checks that each link between pages of the built book leads to a file.
fn check(book: &Path) -> Result<(), String> {
    let mut folders = vec![book.to_owned()];
    let mut lost = Vec::new();
    let mut links = 0;
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // The page for absent pages has links from the root, and that for printing has all pages in one.
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.ends_with(".html") || ["404.html", "print.html", "toc.html"].contains(&name) {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let targets = ["<a href=\"", "<img src=\""].map(|start| text.split(start).skip(1));
            for link in targets.into_iter().flatten().filter_map(|rest| rest.split('"').next()) {
                let file = link.split('#').next().unwrap_or_default();
                if !file.is_empty() && !file.contains(':') {
                    links += 1;
                    if !folder.join(file).exists() {
                        lost.push(format!("{}: {link}", path.display()));
                    }
                }
            }
        }
    }
    match lost.is_empty() && links > 0 {
        true => Ok(()),
        false => {
            Err(format!("{} of {links} links of the book lead nowhere:\n{}", lost.len(), lost.join("\n")))
        }
    }
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
    write(&worth, worths(&ovolo, &models)?)?;
    let pages = folder.join("src").join(RULES);
    let mut write_pages = Command::new(&ovolo);
    command(write_pages.args(["rules", "pages", "--worth"]).arg(&worth).arg("--out").arg(&pages))?;
    let list = fs::read_to_string(pages.join("README.md")).map_err(|error| format!("{RULES}: {error}"))?;
    Ok(RULES_HERE.to_owned() + &chapters(&list))
}

/// Returns what the rules are worth on some models, as `ovolo rules ablate --json` prints it. As many models are measured at
/// the same time as there are processors.
fn worths(ovolo: &Path, models: &[PathBuf]) -> Result<String, String> {
    let one = |model: &PathBuf| {
        let mut ablate = Command::new(ovolo);
        ablate.args(["rules", "ablate", "--json", "--seeded-weights"]).arg(model);
        let output = ablate.output().map_err(|error| format!("{}: {error}", ovolo.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![String::new(); models.len()]);
    let worker = || {
        while let Some((at, model)) = models.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let lines = one(model)?;
            found.lock().unwrap_or_else(PoisonError::into_inner)[at] = lines;
        }
        Ok::<(), String>(())
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner).concat())
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
        // It runs for seconds: to optimise it would take longer than that saves.
        install.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command(install.args(["--version", VERSION, "--root"]).arg(&tools))?;
    }
    Ok(program)
}

/// Returns the text of a file of the repository.
fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
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
        let part = &link[file.len()..];
        if file.is_empty() || link.contains("://") || is_picture(file) {
            link.to_owned()
        } else if !pages.contains(&target) {
            format!("{FILES}{}{part}", target.display())
        } else {
            // mdBook writes the page README.md as index.html, but leaves links to it as they are.
            match file.strip_suffix("README.md") {
                Some(folder) => format!("{folder}index.md{part}"),
                None => link.to_owned(),
            }
        }
    })
}

/// Returns whether a link leads to a picture, which is copied into the book.
fn is_picture(link: &str) -> bool {
    link.ends_with(".png") && !link.contains("://")
}

/// Returns the pictures of a page, as paths in the repository.
fn pictures(page: &Path, text: &str) -> BTreeSet<PathBuf> {
    let mut pictures = BTreeSet::new();
    each_link(text, |link| {
        if is_picture(link) {
            pictures.insert(joined(page.parent().unwrap_or(Path::new("")), link));
        }
        link.to_owned()
    });
    pictures
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
    fn a_link_of_the_book_that_leads_nowhere_is_found() {
        let book = std::env::temp_dir().join(format!("ovolo-book-{}", std::process::id()));
        let page = |link: &str| {
            format!("<a href=\"{link}\">x</a> <a href=\"https://x.org\">y</a> <a href=\"#here\">z</a>")
        };
        let result = |link: &str| {
            write(&book.join("a/one.html"), page(link))?;
            write(&book.join("index.html"), page("a/one.html"))?;
            check(&book)
        };
        let (right, wrong) = (result("../index.html#top"), result("README.html"));
        assert_eq!(remove(&book), Ok(()));
        assert_eq!(right, Ok(()));
        assert!(
            wrong.is_err_and(|why| why.starts_with("1 of 2 links") && why.ends_with("one.html: README.html"))
        );
    }

    #[test]
    fn each_file_of_rules_is_a_chapter() {
        let list = "# Rules\n\n## fuse\n\n- [a-$b](fuse/a-b.md): the law (of `x`)\n";
        let expected = "  - [The shipped rules](rules/pages/README.md)\n    - [fuse]()\n      - [a-$b](rules/pages/fuse/a-b.md)\n";
        assert_eq!(chapters(list), expected);
        let summary = listed(&read(Path::new("docs/SUMMARY.md")).unwrap_or_default());
        assert!(summary.contains(RULES_HERE), "{summary}");
    }

    #[test]
    fn pictures_of_pages_are_part_of_the_book() {
        let page = "![A plan](images/plan.png) and [a page](RULES.md), ![elsewhere](https://x.org/a.png)\n";
        let path = Path::new("docs/GUIDE.md");
        assert_eq!(pictures(path, page), ["docs/images/plan.png"].map(PathBuf::from).into());
        assert!(rewritten(path, page, &BTreeSet::new()).starts_with("![A plan](images/plan.png)"));
    }

    #[test]
    fn links_lead_into_the_book_or_to_the_web() {
        let pages = pages("[Top](../README.md)\n- [Rules](RULES.md)\n");
        assert_eq!(pages, ["README.md", "docs/RULES.md"].map(PathBuf::from).into());
        assert_eq!(listed("- [Rules](RULES.md)\n"), "- [Rules](docs/RULES.md)\n");
        let page = "[a](../README.md#top), [b](#here), [c](https://x.org), [d](../src/lib.rs) and [e](ABSENT.md#part)\n```\n[f](g)\n```\n";
        let expected = "[a](../index.md#top), [b](#here), [c](https://x.org), \
            [d](https://github.com/ovolo/ovolo/blob/main/src/lib.rs) and \
            [e](https://github.com/ovolo/ovolo/blob/main/docs/ABSENT.md#part)\n```\n[f](g)\n```\n";
        assert_eq!(rewritten(Path::new("docs/RULES.md"), page, &pages), expected);
    }
}

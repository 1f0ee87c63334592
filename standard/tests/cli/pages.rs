//! Runs the commands of the documentation.
//!
//! A page may have blocks of these kinds, which are used in their order, in a folder of the page's own in which `examples`,
//! `rules` and `passes` are those of the repository, with the pipeline `native`:
//!
//! - `ron file=PATH` (or another language): the text becomes that file.
//! - `console`: each line that begins with `$ ` is a command for the shell. The lines below it are what it prints, on
//!   standard output and on standard error. A line `...` stands for any number of lines, and `[..]` for any text within a
//!   line. A command that fails ends with a line `? CODE`.
//! - `sh`: commands that take too long, or need what is not here. Only their words are checked: whether the command line
//!   has these commands and options.
#![allow(clippy::unwrap_used)]

use regex::Regex;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A block of a page.
#[derive(Debug, PartialEq)]
enum Block {
    File { path: String, text: String },
    Console(Vec<Step>),
    Shell(Vec<(usize, String)>),
}

/// A command of a page.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// The line of the page, from 1 on.
    line: usize,
    command: String,
    /// What it prints.
    prints: String,
    /// Its exit status.
    code: i32,
}

/// Returns the blocks of a page that are used.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        if info == "console" {
            blocks.push(Block::Console(steps(&body)));
        } else if info == "sh" {
            blocks.push(Block::Shell(commands(&body)));
        } else if let Some((_, path)) = info.split_once(" file=") {
            let text = body.iter().fold(String::new(), |text, (_, line)| text + line + "\n");
            blocks.push(Block::File { path: path.to_owned(), text });
        }
    }
    blocks
}

/// Returns the commands of `ovolo` in lines for the shell, each with its line of the page.
fn commands(body: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in body {
        let part = line.strip_suffix('\\').unwrap_or(line);
        match commands.last_mut().filter(|_| goes_on) {
            Some((_, command)) => command.push_str(part),
            None => commands.push((at + 1, part.to_owned())),
        }
        goes_on = line.ends_with('\\');
    }
    let each = commands.iter().flat_map(|(at, line)| line.split(" && ").map(|command| (*at, command)));
    each.filter_map(|(at, command)| {
        let words =
            ["ovolo ", "cargo run --release -- "].iter().find_map(|start| command.strip_prefix(start))?;
        Some((at, format!("ovolo {words}")))
    })
    .collect()
}

fn steps(body: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, line) in body {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: at + 1, command: command.to_owned(), ..Step::default() });
            continue;
        }
        let step = steps.last_mut().expect("the first line of a console is a command");
        match line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
            Some(code) => step.code = code,
            None => step.prints += &format!("{line}\n"),
        }
    }
    steps
}

/// Returns whether this was printed, up to what the expectation leaves open.
fn fits(expected: &str, printed: &str) -> bool {
    let mut pattern = "^".to_owned();
    for line in expected.lines() {
        match line {
            "..." => pattern += "(?:.*\n)*?",
            line => pattern += &(regex::escape(line).replace(r"\[\.\.\]", ".*") + "\n"),
        }
    }
    Regex::new(&(pattern + "$")).unwrap().is_match(printed)
}

/// How lines begin that are printed or not, depending on the machine and on what was run before.
const DEPENDENT: [&str; 1] = ["note: the machine was busy while its speed was measured"];

/// A folder in which the commands of a page run.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(crate::common::folder(name));
        for shared in ["examples", "rules", "passes"] {
            std::os::unix::fs::symlink(crate::common::root().join(shared), folder.0.join(shared)).unwrap();
        }
        folder
    }

    /// Returns what a command prints, and its exit status.
    fn run(&self, command: &str) -> (String, i32) {
        let program = Path::new(env!("CARGO_BIN_EXE_ovolo"));
        let mut path = OsString::from(program.parent().unwrap());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(&self.0)
            .env("PATH", path)
            .env("OVOLO_CACHE", self.0.join("cache"))
            .env("OVOLO_PIPELINE", "native")
            .output()
            .unwrap();
        let lines = String::from_utf8_lossy(&output.stdout);
        let counts = |line: &&str| !DEPENDENT.iter().any(|start| line.starts_with(start));
        let printed = lines.split_inclusive('\n').filter(counts).collect();
        (printed, output.status.code().unwrap_or(-1))
    }
}

/// Runs a page. Returns what is different.
fn run(name: &str, page: &str) -> String {
    let folder = Folder::new(&format!("page-{}", name.replace(['/', '.'], "-")));
    let mut different = String::new();
    for block in blocks(page) {
        match block {
            Block::File { path, text } => {
                let path = folder.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Block::Shell(commands) => {
                for (line, command) in commands {
                    // Only the command itself is checked: no comment, no redirection, and no command for `reduce`.
                    let own =
                        command.split([';', '|', '#', '>']).next().unwrap().split(" -- ").next().unwrap();
                    // Options are read in their order, so an unknown one is found before the help is printed.
                    let (printed, code) = folder.run(&format!("{own} --help"));
                    if code != 0 {
                        writeln!(different, "{name}:{line}: $ {command}\n{printed}? {code}\n").unwrap();
                    }
                }
            }
            Block::Console(steps) => {
                for step in steps {
                    let (printed, code) = folder.run(&step.command);
                    if code != step.code || !fits(&step.prints, &printed) {
                        let Step { line, command, .. } = step;
                        writeln!(different, "{name}:{line}: $ {command}\n{printed}? {code}\n").unwrap();
                    }
                }
            }
        }
    }
    different
}

#[test]
fn pages_show_what_commands_print() {
    let root = crate::common::root();
    let mut pages = vec!["README.md".to_owned(), "rules/README.md".to_owned()];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        pages.push(format!("docs/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    pages.retain(|page| page.ends_with(".md"));
    pages.sort();
    let (mut consoles, mut commands) = (0, 0);
    let mut different = String::new();
    for name in &pages {
        let page = std::fs::read_to_string(root.join(name)).unwrap();
        for block in blocks(&page) {
            match block {
                Block::Console(_) => consoles += 1,
                Block::Shell(shell) => commands += shell.len(),
                Block::File { .. } => {}
            }
        }
        different += &run(name, &page);
    }
    assert!(consoles >= 40 && commands >= 40, "only {consoles} blocks and {commands} commands are checked");
    assert!(different.is_empty(), "these commands print something else than their pages say:\n\n{different}");
}

#[test]
fn a_page_that_tells_something_else_is_found() {
    let page = |prints: &str| {
        format!(
            "# Page\n\n```text file=a/b.txt\none\ntwo\nthree\n```\n\n```console\n$ cat a/b.txt\n{prints}```\n"
        )
    };
    for right in [
        "one\ntwo\nthree\n",
        "one\n...\n",
        "...\nthree\n",
        "o[..]\nt[..]o\nthree\n",
        "one\ntwo\n...\nthree\n",
    ] {
        assert_eq!(run("right", &page(right)), "", "{right}");
    }
    for wrong in
        ["", "one\n", "one\nthree\n", "one\ntwo\nthree\nfour\n", "on[..]x\n...\n", "one\ntwo\nthree\n? 1\n"]
    {
        assert!(
            run("wrong", &page(wrong)).starts_with("wrong:10: $ cat a/b.txt\none\ntwo\nthree\n? 0\n"),
            "{wrong}"
        );
    }
    let shell = |command: &str| run("shell", &format!("```sh\n# One\n{command}\n```\n"));
    assert_eq!(shell("ovolo run x.onnx \\\n  --threads 2 > a.txt"), "");
    assert!(
        shell("ovolo run x.onnx \\\n  --tread 2").starts_with("shell:3: $ ovolo run x.onnx   --tread 2\n")
    );
    assert!(shell("cargo run --release -- rum").contains("rum"));
    let fails = |code: i32| run("fails", &format!("```console\n$ echo no >&2; exit 3\nno\n? {code}\n```\n"));
    assert_eq!((fails(3).is_empty(), fails(0).is_empty()), (true, false));
}

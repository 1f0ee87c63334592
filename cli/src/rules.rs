//! `ovolo rules …`: commands for authors of rules.

mod ablate;
mod check;
mod list;
mod pages;
mod test;
mod verify;
mod why;

pub use verify::{VerifySettings, verify_case, verify_rules};
pub(crate) use why::why_not;

use super::Outcome;
use super::files::{read, rule_files, same_file};
use clap::{Args, Subcommand};
use ovolo::error::{Diagnostics, Span};
use ovolo::registry::Registry;
use ovolo::rule::{self, Example, Rule, RuleSet, Texts};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Subcommand)]
pub(super) enum Rules {
    /// List rules: name, place, law.
    List(list::List),
    /// Find probable mistakes: sides of different types, invalid examples, unused variables, and rules that
    /// change nothing, that another rule subsumes or reverses, that no pipeline uses, or that never fire.
    Check(check::Check),
    /// Show why a rule does not fire on a model: the nearest miss, the guard that refuses, or the limit.
    WhyNot(Box<why::WhyNotCommand>),
    /// Check every rule numerically on generated instances, or members of models' e-graphs.
    Verify(verify::Verify),
    /// Show what each rule is worth on models: the cost without it compared with the cost with it.
    Ablate(ablate::Ablate),
    /// Print the reference for rule authors: ops, attributes, guards, computed attributes.
    Reference,
    /// Run the examples of the rules.
    Test(test::Test),
    /// Write a page for each rule: its law, what it does, what verified it, and what it is worth.
    Pages(pages::Pages),
}

impl Rules {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        match self {
            Self::List(command) => command.run(registry),
            Self::Check(command) => command.run(registry),
            Self::WhyNot(command) => command.run(registry),
            Self::Verify(command) => command.run(registry),
            Self::Ablate(command) => command.run(registry),
            Self::Reference => {
                super::print(&ovolo_proof::reference::markdown(registry));
                Ok(())
            }
            Self::Test(command) => command.run(registry),
            Self::Pages(command) => command.run(registry),
        }
    }
}

/// The rules that a command works on.
#[derive(Args)]
struct Source {
    /// Rule files, or folders of them. Default: the shipped ones.
    files: Vec<PathBuf>,
    /// Add the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Use only these rules, or the rules of these files (without folder and extension). May be given more than
    /// once.
    #[arg(long = "rule", value_name = "NAME")]
    only: Vec<String>,
}

/// Rule files after parsing.
struct Loaded {
    /// The names and texts of the files, including those of examples.
    files: Vec<(String, String)>,
    /// The rules that were asked for.
    set: RuleSet,
    /// All rules of the files.
    all: RuleSet,
}

impl Loaded {
    /// Returns the text of a file.
    fn text(&self, file: &str) -> &str {
        self.files.iter().find(|(name, _)| name == file).map_or("", |(_, text)| text)
    }

    /// The line and the column of a byte in a file, both starting at 1.
    fn line_column(&self, file: &str, at: usize) -> (usize, usize) {
        let text = self.text(file);
        let before = text.get(..at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    /// Adds files in which places may be reported.
    fn with(mut self, files: &Texts) -> Self {
        for (name, text) in texts(files) {
            if !self.files.iter().any(|(known, _)| *known == name) {
                self.files.push((name, text));
            }
        }
        self
    }

    /// Formats a place of a rule as `file:line:column`.
    fn place(&self, rule: &Rule, span: Span) -> String {
        let (line, column) = self.line_column(&rule.file, span.start);
        format!("{}:{line}:{column}", rule.file)
    }

    /// Returns the line and the column of the graph of an example.
    fn line_column_of(&self, example: &Example) -> (usize, usize) {
        self.line_column(&example.place().file, example.place().graph.start)
    }

    /// Returns the position of the graph of an example as `file:line:column`.
    fn place_of(&self, example: &Example) -> String {
        let (line, column) = self.line_column_of(example);
        format!("{}:{line}:{column}", example.place().file)
    }
}

/// Returns the names and texts of files that are part of ovolo.
fn texts(files: &Texts) -> impl Iterator<Item = (String, String)> {
    files.iter().map(|(name, text)| (name.to_owned(), text.to_string()))
}

/// The number of threads of a command whose result does not depend on it.
fn threads(asked: Option<usize>) -> Result<usize, String> {
    match asked {
        Some(0) => Err("the threads (`--threads`) must be at least 1".into()),
        Some(threads) => Ok(threads),
        None => Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
    }
}

impl Source {
    fn load(&self, registry: &Registry) -> Result<Loaded, String> {
        let (loaded, mistakes) = self.load_right(registry)?;
        if mistakes.is_empty() { Ok(loaded) } else { Err(mistakes.to_string()) }
    }

    /// Returns the rules that could be parsed, and the mistakes of the others.
    fn load_right(&self, registry: &Registry) -> Result<(Loaded, Diagnostics), String> {
        let mut files: Vec<(String, String)> = Vec::new();
        if self.files.is_empty() {
            files.extend(texts(registry.rules()).chain(texts(registry.examples())));
        }
        for path in &self.files {
            if path.is_dir() {
                files.extend(rule_files(path)?);
            } else {
                files.push((path.display().to_string(), read(path)?));
            }
        }
        for directory in &self.rules {
            let known =
                |name: &str| files.iter().any(|(file, _)| same_file(Path::new(file), Path::new(name)));
            let mut found = rule_files(directory)?;
            // A file that is also named alone is read once.
            found.retain(|(name, _)| !known(name));
            files.extend(found);
        }
        for (name, _) in files.clone() {
            let examples = rule::beside(&name);
            let path = Path::new(&examples);
            let shipped = self.files.is_empty() && registry.rules().get(&name).is_some();
            if !shipped && path.is_file() && !files.iter().any(|(known, _)| *known == examples) {
                let text = read(path)?;
                files.push((examples, text));
            }
        }
        let texts: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (all, mistakes) = RuleSet::read_right(registry.vocabulary(), &texts);
        let set = match &self.only[..] {
            [] => all.clone(),
            only => all.keep(only).map_err(|unknown| {
                // A rule with a mistake is not in the set, but its name is in its file.
                let written =
                    |name: &String| files.iter().any(|(_, text)| text.contains(&format!("name: \"{name}\"")));
                let read = |name: &String| all.keep(std::slice::from_ref(name)).is_ok();
                match (mistakes.is_empty(), only.iter().all(|name| read(name) || written(name))) {
                    (true, _) => unknown.to_string(),
                    (false, true) => mistakes.to_string(),
                    (false, false) => format!("{mistakes}\n\n{unknown}"),
                }
            })?,
        };
        Ok((Loaded { files, set, all }, mistakes))
    }
}

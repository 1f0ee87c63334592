//! Tests messages about bad rule files and pipelines; each snapshot shows the whole message.
//!
//! Each `tests/bad/rules/NAME.ron` and `tests/bad/pipelines/NAME.ron` is one test. Every message about a rule
//! file has a place, the rule, and what to do, and rule files alone have many kinds of messages.
#![allow(clippy::unwrap_used)]

mod common;

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::error::{Diagnostic, Diagnostics};
use ovolo::pass::{Scope, pipeline::Pipeline};
use ovolo::rule::{self, RuleSet};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = trials("rules", |name, text| read(name, text).err().map(|found| found.to_string()));
    trials.extend(self::trials("pipelines", |name, text| {
        let rules = common::rules();
        Pipeline::read(&Scope { rules: Some(&rules), ..common::registry().scope() }, name, text)
            .err()
            .map(|found| found.to_string())
    }));
    assert!(trials.len() >= 50, "the bad files exist");
    trials.push(Trial::test("rules::every_message_says_where_and_what_to_do", complete));
    trials.push(Trial::test("pipelines::every_message_says_where_and_what_to_do", complete_pipelines));
    trials.push(Trial::test("rules::there_are_forty_kinds", kinds));
    trials.push(Trial::test("rules::a_file_name_keeps_its_rules", kept));
    trials.push(Trial::test("rules::a_rule_that_is_taken_away_is_still_known", gone));
    libtest_mimic::run(&arguments, trials).exit();
}

/// Reads a bad rule file, with its examples where it has some.
fn read(name: &str, text: &str) -> Result<RuleSet, Diagnostics> {
    let beside = rule::beside(name);
    let folder = common::root().join("tests/bad/rules");
    let examples = std::fs::read_to_string(folder.join(&beside)).ok();
    let files = [Some((name, text)), examples.as_deref().map(|examples| (&*beside, examples))];
    let files: Vec<(&str, &str)> = files.into_iter().flatten().collect();
    RuleSet::read(common::registry().vocabulary(), &files)
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = listed.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Files whose mistake lies outside of all rules, or in a rule before it has a name.
const NO_RULE: &[&str] = &[
    "empty_file",
    "examples_are_a_map",
    "examples_of_an_absent_rule",
    "examples_of_two_rules",
    "examples_without_their_rules",
    "name_is_a_number",
    "not_a_list",
    "rule_is_a_number",
    "typographic_quotes",
];

/// Every mistake in the bad rule files, with the name of its file.
fn mistakes() -> Vec<(String, Diagnostic)> {
    let folder = common::root().join("tests/bad/rules");
    let mut found = Vec::new();
    for path in files(&folder) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let errors = read(&format!("{name}.ron"), &text).unwrap_err();
        found.extend(errors.into_iter().map(|diagnostic| (name.clone(), diagnostic)));
    }
    found
}

fn complete() -> Result<(), Failed> {
    let mut lacking = Vec::new();
    for (name, diagnostic) in mistakes() {
        let message = &diagnostic.message;
        // File, line and column come from the same place, so one check is enough.
        if diagnostic.labels.is_empty() {
            lacking.push(format!("{name}: no place: {message}"));
        }
        let says = |start: &str| diagnostic.notes.iter().any(|note| note.starts_with(start));
        if !says("help: ") {
            lacking.push(format!("{name}: no advice on what to do: {message}"));
        }
        if says("in rule `") == NO_RULE.contains(&name.as_str()) {
            lacking.push(format!("{name}: the message names a rule although `NO_RULE` lists the file, or the other way round: {message}"));
        }
    }
    if lacking.is_empty() { Ok(()) } else { Err(lacking.join("\n").into()) }
}

fn complete_pipelines() -> Result<(), Failed> {
    let folder = common::root().join("tests/bad/pipelines");
    let rules = common::rules();
    let mut lacking = Vec::new();
    for path in files(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        for diagnostic in
            Pipeline::read(&Scope { rules: Some(&rules), ..common::registry().scope() }, "p.ron", &text)
                .unwrap_err()
        {
            let advice = diagnostic.notes.iter().any(|note| note.starts_with("help: "));
            if diagnostic.labels.is_empty() || !advice {
                lacking.push(format!(
                    "{}: no place, or no advice on what to do: {}",
                    path.display(),
                    diagnostic.message
                ));
            }
        }
    }
    if lacking.is_empty() { Ok(()) } else { Err(lacking.join("\n").into()) }
}

fn kept() -> Result<(), Failed> {
    let set = common::rules();
    let kept = set.keep(&["algebra".to_owned()]).unwrap();
    let whole = set.rules().iter().filter(|rule| rule.stem() == "algebra").count();
    if whole > 0 && kept.rules().len() == whole {
        Ok(())
    } else {
        Err(format!("{} of {whole} rules", kept.rules().len()).into())
    }
}

fn gone() -> Result<(), Failed> {
    let text = "[Rule(name: \"alone\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]";
    let set = RuleSet::read(common::registry().vocabulary(), &[("rules/own.ron", text)]).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let without = set.without("alone").without("another");
    // It is selected by its name, or by the name of the file that contains only it.
    let selected = without.select(&names(&["alone", "own"])).map_err(|found| found.to_string())?;
    if !selected.is_empty() || without.select(&names(&["alon"])).is_ok() {
        return Err(format!("{} rules are selected", selected.len()).into());
    }
    let pipeline = "Pipeline(name: \"p\", passes: [Rewrite(name: \"r\", rules: [\"own\", \"alone\"])], backends: [\"native\"])";
    let read =
        Pipeline::read(&Scope { rules: Some(&without), ..common::registry().scope() }, "p.ron", pipeline);
    read.map(drop).map_err(|found| found.to_string().into())
}

/// The kind of a message: the message without quotations and numbers.
fn kind(message: &str) -> String {
    let quoted = message.split('`').step_by(2).collect::<Vec<_>>().join("`…`");
    quoted.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
}

fn kinds() -> Result<(), Failed> {
    let kinds: BTreeSet<String> =
        mistakes().iter().map(|(_, diagnostic)| kind(&diagnostic.message)).collect();
    println!("{} kinds of mistakes in rule files", kinds.len());
    if kinds.len() >= 60 { Ok(()) } else { Err(format!("{} kinds: {kinds:#?}", kinds.len()).into()) }
}

fn trials(kind: &'static str, read: fn(&str, &str) -> Option<String>) -> Vec<Trial> {
    let folder = common::root().join("tests/bad").join(kind);
    let files = files(&folder);
    let trial = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Trial::test(format!("{kind}::{name}"), move || refused(kind, &name, &path, read))
    };
    files.into_iter().map(trial).collect()
}

fn refused(
    kind: &str,
    name: &str,
    path: &Path,
    read: fn(&str, &str) -> Option<String>,
) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path).unwrap();
    let Some(message) = read(&format!("{name}.ron"), &text) else {
        return Err("the file was read without a mistake".into());
    };
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(common::root().join("snapshots/errors").join(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    // A build may have more extractors.
    let message = message.replace("naive, ilp", "naive");
    settings.bind(|| insta::assert_snapshot!(name, message));
    Ok(())
}

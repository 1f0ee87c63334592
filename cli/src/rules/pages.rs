//! `ovolo rules pages`: a page for each rule, in Markdown, and one that lists them.

mod drawing;
mod page;
mod worth;

use self::page::Page;
use self::worth::Worth;
use super::verify::verified;
use super::{Loaded, Source};
use crate::load::read_pipeline;
use crate::progress::Progress;
use crate::{Outcome, print};
use clap::Args;
use ovolo::registry::Registry;
use ovolo::rule::Rule;
use ovolo_proof::verify::{self, Verification};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Args)]
pub(crate) struct Pages {
    #[command(flatten)]
    source: Source,
    /// The folder that the pages are written to: FILE/RULE.md for each rule, and README.md.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What the rules are worth: the lines that `ovolo rules ablate MODELS --json` has printed. A page names the models whose
    /// plans cost more without the rule.
    #[arg(long, value_name = "FILE")]
    worth: Option<PathBuf>,
    /// The instances on which each rule is verified.
    #[arg(long, default_value_t = 200)]
    instances: usize,
    /// Threads. The pages do not depend on their number. Default: the available processors.
    #[arg(long)]
    threads: Option<usize>,
}

/// A rule as it is written, which may stand for several.
struct Written<'a> {
    rules: Vec<(&'a Arc<Rule>, &'a Verification)>,
}

impl Written<'_> {
    fn first(&self) -> &Rule {
        self.rules[0].0
    }

    /// Returns the path of the rule's page in the folder of pages.
    fn path(&self) -> String {
        let name: String = self.first().written.chars().filter(|letter| *letter != '$').collect();
        format!("{}/{name}.md", self.first().stem())
    }
}

impl Pages {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        if self.instances == 0 {
            return Err("--instances must be at least 1".into());
        }
        let worth = self.worth.as_deref().map(Worth::read).transpose()?;
        let loaded = self.source.load(registry)?;
        let settings = verify::Settings { instances: self.instances, ..Default::default() };
        let progress = Mutex::new(Progress::new(loaded.set.rules().len()));
        let done = |one: &Verification| {
            progress.lock().unwrap_or_else(PoisonError::into_inner).step(&one.rule);
        };
        let verified = verified(registry, &loaded, settings, self.threads, &AtomicBool::new(false), &done)?;
        drop(progress);
        let pipelines = registry
            .pipeline_names()
            .map(|name| read_pipeline(registry, name, None))
            .collect::<Result<Vec<_>, _>>()?;
        let all = written(&loaded, &verified);
        for one in &all {
            let page = Page { registry, loaded: &loaded, pipelines: &pipelines, worth: worth.as_ref() };
            self.write(&one.path(), &page.of(one))?;
        }
        self.write("README.md", &list(&all))?;
        print(&format!("{}: {} pages\n", self.out.join("README.md").display(), all.len()));
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        let path = self.out.join(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        let written =
            std::fs::create_dir_all(folder).and_then(|()| ovolo::file::write(&path, &[text.as_bytes()]));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Returns the rules as they are written, in the order of their files.
fn written<'a>(loaded: &'a Loaded, verified: &'a [Verification]) -> Vec<Written<'a>> {
    let mut all: Vec<Written<'a>> = Vec::new();
    for (rule, verification) in loaded.set.rules().iter().zip(verified) {
        let same =
            |one: &&mut Written<'_>| one.first().file == rule.file && one.first().written == rule.written;
        match all.iter_mut().rev().find(same) {
            Some(one) => one.rules.push((rule, verification)),
            None => all.push(Written { rules: vec![(rule, verification)] }),
        }
    }
    all
}

/// Returns the page that lists all rules, by their files.
fn list(all: &[Written<'_>]) -> String {
    let mut text = String::from("# The shipped rules\n");
    let mut file = "";
    for one in all {
        let rule = one.first();
        if rule.file != file {
            file = &rule.file;
            let _ = writeln!(text, "\n## {}\n", rule.stem());
        }
        let _ = writeln!(text, "- [{}]({}): {}", rule.written, one.path(), rule.doc);
    }
    text
}

//! `ovolo derivatives`.

use super::table;
use clap::Args;
use ovolo::registry::Registry;
use ovolo_cli::{AddedCommand, Progress, Refusal};
use ovolo_proof::verify::{self, Settings};
use std::path::PathBuf;
use std::sync::Arc;

/// The command `derivatives`, which verifies the table of derivatives.
#[derive(Args)]
pub struct Derivatives {
    /// Files with derivatives of ops. Only these are verified; without a file, ovolo's own are.
    #[arg(value_name = "FILE.ron")]
    files: Vec<PathBuf>,
    /// The number of instances of each.
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    instances: usize,
    /// The seed of the instances.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl AddedCommand for Derivatives {
    const NAME: &'static str = "derivatives";
    const ABOUT: &'static str = "Compare derivatives of ops with differences on generated instances";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        let table = table(registry, &self.files)?;
        let given = |file: &str| self.files.iter().any(|own| own.display().to_string() == *file);
        let rules: Vec<_> =
            table.rules().iter().filter(|rule| self.files.is_empty() || given(&rule.file)).collect();
        let settings = Settings { instances: self.instances, seed: self.seed, ..Settings::default() };
        let mut progress = Progress::new(rules.len());
        let mut wrong = Vec::new();
        for rule in &rules {
            progress.step(&rule.name);
            let found = verify::derivative(rule, settings);
            if found.holds(settings) {
                progress.print(&format!(
                    "{}: holds on {} instances, {} elements, relative difference at most {:.0e}",
                    found.rule, found.instances, found.elements, found.worst
                ));
                continue;
            }
            let why = found.wrong.unwrap_or_else(|| {
                let reasons =
                    found.reasons.iter().map(|reason| format!("{} ({} times)", reason.text, reason.count));
                let reasons: Vec<String> = reasons.collect();
                format!("only {} instances were found: {}", found.instances, reasons.join("; "))
            });
            wrong.push(format!("{}:{}: derivative `{}`: {why}", rule.file, rule.line, rule.name));
        }
        drop(progress);
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("\n").into()),
        }
    }
}

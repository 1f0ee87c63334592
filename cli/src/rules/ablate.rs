//! `ovolo rules ablate`.

use crate::progress::Progress;
use crate::{Outcome, Settings, print};
use clap::Args;
use ovolo::registry::Registry;
use ovolo_proof::ablate::{self, Worth};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct Ablate {
    /// The models.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// The pipeline: a file, or the name of a shipped one.
    #[arg(long, default_value = "native")]
    pipeline: String,
    /// Add the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Add rules to a `Rewrite` of the pipeline, such as `new.ron:fuse`. May be given more than once.
    #[arg(long, value_name = "RULES:PHASE")]
    add: Vec<String>,
    /// The cost model. Default: the nominal one, which is the same on any machine.
    #[arg(long, default_value = "flops")]
    cost: String,
    /// The threads of the plan.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Bind a symbolic dimension of the models.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
    /// Print JSON, a line for each model and rule.
    #[arg(long)]
    json: bool,
}

/// Returns the head of a message and its first reason, and how many more there are. Reasons stand on indented lines;
/// the advice after them is left out.
fn first_of(why: &str) -> String {
    let head = why.lines().next().unwrap_or_default().trim();
    let mut reasons = why.lines().skip(1).filter(|line| line.starts_with(' ')).map(str::trim);
    match (reasons.next(), reasons.count()) {
        (None, _) => head.to_owned(),
        (Some(first), 0) => format!("{head} {first}"),
        (Some(first), more) => format!("{head} {first}; and {more} more"),
    }
}

impl Ablate {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        for model in &self.models {
            let settings = self.settings(model);
            let mut options = settings.options(registry, &self.pipeline)?;
            let graph = settings.graph(registry)?;
            let mut progress = None;
            let found = ablate::rules(&graph, &mut options, &mut |at, all, rule| {
                progress
                    .get_or_insert_with(|| Progress::from(at, all))
                    .step(&format!("{} {rule}", model.display()));
            });
            drop(progress);
            let (whole, worths) = found.map_err(|error| format!("{}: {error}", model.display()))?;
            print(&self.report(model, whole, &worths));
        }
        Ok(())
    }

    fn settings(&self, model: &std::path::Path) -> Settings {
        Settings {
            dims: self.dims.clone(),
            pipeline: self.pipeline.clone(),
            rules: self.rules.clone(),
            add: self.add.clone(),
            cost: Some(self.cost.clone()),
            threads: Some(self.threads),
            seeded_weights: self.seeded_weights,
            ..Settings::new(model)
        }
    }

    fn report(&self, model: &std::path::Path, whole: f64, worths: &[Worth]) -> String {
        let mut text = String::new();
        if !self.json {
            let _ = writeln!(
                text,
                "{}: {:.6} ms with all rules by `{}`; without the rule:",
                model.display(),
                whole * 1e3,
                self.cost
            );
        }
        for Worth { rule, without } in worths {
            if self.json {
                let value = serde_json::json!({
                    "model": model.display().to_string(), "rule": rule, "with": whole, "without": without.as_ref().ok(),
                    "error": without.as_ref().err().map(ToString::to_string),
                });
                let _ = writeln!(text, "{value}");
                continue;
            }
            let worth = match without {
                Err(why) => format!("does not compile: {}", first_of(&why.to_string())),
                Ok(without) => {
                    format!("{:12.6} ms  {:+7.2} %", without * 1e3, (without / whole - 1.0).max(0.0) * 100.0)
                }
            };
            let _ = writeln!(text, "  {rule:32} {worth}");
        }
        text
    }
}

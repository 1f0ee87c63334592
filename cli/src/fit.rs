//! `ovolo fit`.

use super::load::{calibrated_machine, learned_file};
use super::page::writable;
use super::progress::Progress;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::compile::Options;
use ovolo::cost::Validators;
use ovolo::cost::{Fit as Fitted, HeldOut, LEARNERS};
use ovolo::graph::text;
use ovolo::host;
use ovolo::onnx;
use ovolo::registry::Registry;
use ovolo_tune::Tuner;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Fit {
    /// The models whose kernels have times: run `ovolo tune` on each first.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Bind a symbolic dimension of those models that have it.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// The pipeline whose candidates are learned: a file, or the name of a shipped one.
    #[arg(long, env = "OVOLO_PIPELINE", default_value = "cpu")]
    pipeline: String,
    /// Add the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Add rules to a `Rewrite` of the pipeline, such as `new.ron:fuse`. May be given more than once.
    #[arg(long, value_name = "RULES:PHASE")]
    add: Vec<String>,
    /// Threads, including the calling one. Default: the processors that this process may use.
    #[arg(long)]
    threads: Option<usize>,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
    /// The learner: `boosted` (gradient-boosted trees) or `linear` (least squares of logarithms).
    #[arg(long, default_value = LEARNERS[0])]
    learner: String,
    /// Write the model to this file instead of the one that `--cost learned` reads.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Fit {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let threads = self.settings(&self.models[0], Vec::new()).threads()?;
        let dims = self.dims()?;
        let out = match &self.out {
            Some(file) => {
                let read: Vec<PathBuf> = self
                    .models
                    .iter()
                    .flat_map(|model| self.settings(model, self.dims.clone()).inputs())
                    .collect();
                writable("--out ", file, &read)?;
                file.clone()
            }
            None => learned_file(threads)?,
        };
        let machine = calibrated_machine(registry, threads).machine;
        let mut tuner = Tuner::open(ovolo::cache::home().as_deref(), threads, machine, registry.backends());
        for note in tuner.notes() {
            eprintln!("note: {note}");
        }
        let measured = tuner.measured();
        let mut examples = Vec::new();
        let mut progress = Progress::new(self.models.len());
        for (model, dims) in self.models.iter().zip(dims) {
            progress.step(&model.display().to_string());
            let settings = self.settings(model, dims);
            let options = Options { machine, ..settings.options(registry, &self.pipeline)? };
            let found =
                ovolo_tune::examples(&settings.title(), &settings.graph(registry)?, &options, &measured)
                    .map_err(|error| format!("{}: {error}", model.display()))?;
            if found.is_empty() {
                let weights = if self.seeded_weights { " --seeded-weights" } else { "" };
                return Err(format!(
                    "{0}: the table has no times for its kernels: run `ovolo tune {0} --pipeline {1} --threads {threads}{weights}`{2}",
                    model.display(),
                    self.pipeline,
                    if self.dims.is_empty() && self.rules.is_empty() {
                        ""
                    } else {
                        " with the same --dim and --rules"
                    }
                ));
            }
            examples.extend(found);
        }
        drop(progress);
        let Validators { machine: head, libraries } = host::validators(threads, registry.backends());
        let fitted =
            Fitted::new(&self.learner, head, libraries, machine, &registry.catalog().prices, &examples)
                .map_err(|error| error.to_string())?;
        let text = fitted.write();
        if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        ovolo::file::write(&out, &[text.as_bytes()])
            .map_err(|error| format!("{}: {error}", out.display()))?;
        if self.json {
            print(&format!(
                "{}\n",
                serde_json::json!({
                    "file": out.display().to_string(), "learner": fitted.learner(), "kernels": fitted.kernels,
                    "price_lists": fitted.prices,
                    "held_out": fitted.held_out,
                })
            ));
        } else {
            print(&self.report(&out, &fitted));
        }
        Ok(())
    }

    /// The values of `--dim` that each model has. One that no model has is a mistake.
    fn dims(&self) -> Result<Vec<Vec<String>>, String> {
        let name = |dim: &str| dim.split_once('=').map(|(name, _)| name.to_owned());
        let mut known = BTreeSet::new();
        let mut dims = Vec::new();
        for model in &self.models {
            let has = match text::is_named(model) {
                true => BTreeSet::new(),
                false => onnx::symbols(model).map_err(|error| error.to_string())?,
            };
            // A malformed one is reported where it is parsed.
            let of_model = |dim: &&String| name(dim).is_none_or(|name| has.contains(&name));
            dims.push(self.dims.iter().filter(of_model).cloned().collect());
            known.extend(has);
        }
        let strange = self.dims.iter().find(|dim| name(dim).is_some_and(|name| !known.contains(&name)));
        match strange {
            None => Ok(dims),
            Some(dim) if known.is_empty() => Err(format!(
                "--dim {dim} applies to none of the models: all their dimensions have fixed sizes"
            )),
            Some(dim) => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                Err(format!(
                    "--dim {dim} applies to none of the models: their dimensions without a size are {}",
                    known.join(", ")
                ))
            }
        }
    }

    fn settings(&self, model: &Path, dims: Vec<String>) -> Settings {
        Settings {
            dims,
            pipeline: self.pipeline.clone(),
            rules: self.rules.clone(),
            add: self.add.clone(),
            // The candidates do not depend on the cost model.
            cost: Some("flops".into()),
            threads: self.threads,
            seeded_weights: self.seeded_weights,
            ..Settings::new(model)
        }
    }

    fn report(&self, out: &Path, fitted: &Fitted) -> String {
        let mut text = format!(
            "{}: {} kernels of {} model(s), `{}`\n",
            out.display(),
            fitted.kernels,
            self.models.len(),
            fitted.learner()
        );
        if fitted.held_out.is_empty() {
            text.push_str("no kernels could be held out: give models whose kernels differ\n");
            return text;
        }
        let _ = writeln!(text, "{:24} {:>8} {:>9} {:>13}", "held out", "kernels", "Spearman", "median error");
        for HeldOut { model, kernels, spearman, error } in &fitted.held_out {
            let spearman = spearman.map_or_else(|| "-".to_owned(), |rank| format!("{rank:.3}"));
            let error = error.map_or_else(|| "-".to_owned(), |error| format!("{:.1} %", error * 100.0));
            let _ = writeln!(text, "{model:24} {kernels:>8} {spearman:>9} {error:>13}");
        }
        text
    }
}

//! Models whose kernels `ovolo tune` has timed, as `ovolo fit` and `ovolo costs table` take them.

use super::Settings;
use super::load::calibrated_machine;
use super::page::title;
use super::progress::Progress;
use clap::Args;
use ovolo::compile::Options;
use ovolo::cost::{Example, Machine};
use ovolo::graph::text;
use ovolo::onnx;
use ovolo::registry::Registry;
use ovolo_tune::Tuner;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct TimedModels {
    /// The models whose kernels have times: run `ovolo tune` on each first.
    #[arg(required = true)]
    pub(super) models: Vec<PathBuf>,
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
}

/// The timed kernels of the models, and the machine that they were timed on.
pub(super) struct Timed {
    pub(super) threads: usize,
    pub(super) machine: Machine,
    pub(super) examples: Vec<Example>,
}

impl TimedModels {
    /// Returns the kernels of all models that the table of times of this machine has.
    pub(super) fn examples(&self, registry: &Arc<Registry>) -> Result<Timed, String> {
        let threads = self.threads()?;
        let dims = self.dims()?;
        let machine = calibrated_machine(registry, threads, true).machine;
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
            let found = ovolo_tune::examples(&title(model), &settings.graph(registry)?, &options, &measured)
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
        Ok(Timed { threads, machine, examples })
    }

    pub(super) fn threads(&self) -> Result<usize, String> {
        self.settings(&self.models[0], Vec::new()).threads()
    }

    /// Returns the files that are read.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        self.models.iter().flat_map(|model| self.settings(model, self.dims.clone()).inputs()).collect()
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
}

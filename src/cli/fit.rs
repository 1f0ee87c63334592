//! `ovolo fit`.

use super::load::{calibrated_machine, learned_file};
use super::page::writable;
use super::progress::Progress;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::compile::Options;
use ovolo::cost::{Fit as Fitted, HeldOut, LEARNERS};
use ovolo::tune::{self, Tuner};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Fit {
    /// The models whose kernels have times: run `ovolo tune` on each first.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Binds a symbolic dimension of the models.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// The pipeline whose candidates are learned: a file, or the name of a shipped one.
    #[arg(long, default_value = "native")]
    pipeline: String,
    /// Adds the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Threads, the calling one included. Default: the processors this process may use.
    #[arg(long)]
    threads: Option<usize>,
    /// Fill initializers that carry no data but say `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
    /// What learns: `boosted` (gradient-boosted trees) or `linear` (least squares of logarithms).
    #[arg(long, default_value = LEARNERS[0])]
    learner: String,
    /// Write the model to this file, in place of the one that `--cost learned` reads.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Fit {
    pub(super) fn run(&self) -> Outcome {
        let threads = self.settings(&self.models[0]).threads()?;
        let out = match &self.out {
            Some(file) => {
                writable("--out ", file)?;
                file.clone()
            }
            None => learned_file(threads)?,
        };
        let machine = calibrated_machine(threads).machine;
        let mut tuner = Tuner::open(ovolo::calibrate::folder().as_deref(), threads, machine);
        for note in tuner.notes() {
            eprintln!("note: {note}");
        }
        let measured = tuner.measured();
        let mut examples = Vec::new();
        let mut progress = Progress::new(self.models.len());
        for model in &self.models {
            progress.step(&model.display().to_string());
            let settings = self.settings(model);
            let options = Options { machine, ..settings.options(&self.pipeline)? };
            let found = tune::examples(&settings.title(), &settings.graph()?, &options, &measured)
                .map_err(|error| format!("{}: {error}", model.display()))?;
            if found.is_empty() {
                return Err(format!(
                    "{0}: the table has no times of its kernels: run `ovolo tune {0} --pipeline {1} --threads {threads}`",
                    model.display(),
                    self.pipeline
                ));
            }
            examples.extend(found);
        }
        drop(progress);
        let fitted = Fitted::new(&self.learner, tune::fit_head(threads), machine, &examples)?;
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
                    "held_out": fitted.held_out,
                })
            ));
        } else {
            print(&self.report(&out, &fitted));
        }
        Ok(())
    }

    fn settings(&self, model: &Path) -> Settings {
        Settings {
            model: model.to_owned(),
            dims: self.dims.clone(),
            pipeline: self.pipeline.clone(),
            rules: self.rules.clone(),
            // The candidates are the same by whatever model they are priced.
            cost: Some("flops".into()),
            formula: None,
            learned: None,
            process: None,
            extractor: None,
            threads: self.threads,
            memory_limit: None,
            seeded_weights: self.seeded_weights,
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
            text.push_str("nothing is held out: give models whose kernels differ\n");
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

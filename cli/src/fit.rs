//! `ovolo fit`.

use super::load::learned_file;
use super::page::writable;
use super::timed::{Timed, TimedModels};
use super::{Outcome, print};
use clap::Args;
use ovolo::cost::Validators;
use ovolo::cost::{Fit as Fitted, HeldOut, LEARNERS};
use ovolo::host;
use ovolo::registry::Registry;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Fit {
    #[command(flatten)]
    timed: TimedModels,
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
        let out = match &self.out {
            Some(file) => {
                writable("--out ", file, &self.timed.inputs())?;
                file.clone()
            }
            None => learned_file(self.timed.threads()?)?,
        };
        let Timed { threads, machine, examples } = self.timed.examples(registry)?;
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

    fn report(&self, out: &Path, fitted: &Fitted) -> String {
        let mut text = format!(
            "{}: {} kernels of {} model(s), `{}`\n",
            out.display(),
            fitted.kernels,
            self.timed.models.len(),
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

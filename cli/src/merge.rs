//! `ovolo merge-times`.

use super::files::read;
use super::page::writable;
use super::{Outcome, print};
use clap::Args;
use ovolo::cost::{Stored, stored::read as read_table};
use ovolo::host::validators;
use ovolo::registry::Registry;
use ovolo_tune::{Comparison, Merged, Part};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct MergeTimes {
    /// Tables of times, as `ovolo tune` keeps them: `times-THREADS.txt`.
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
    /// Write the merged table to this file, instead of adding it to this machine's own table.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show how the times of different machines or versions compare, and merge nothing.
    #[arg(long, conflicts_with = "out")]
    compare: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl MergeTimes {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let mut parts = Vec::new();
        for table in &self.tables {
            let part = Part::read(&table.display().to_string(), &read(table)?);
            parts.push(part.map_err(|error| error.to_string())?);
        }
        if self.compare {
            self.told(&ovolo_tune::compare(&parts));
            return Ok(());
        }
        let out = match &self.out {
            Some(file) => {
                writable("--out ", file, &self.tables)?;
                file.clone()
            }
            None => own(&mut parts, registry)?,
        };
        let Merged { kernels, decisions, text } =
            ovolo_tune::merge(&parts).map_err(|error| error.to_string())?;
        ovolo::file::write(&out, &[text.as_bytes()])
            .map_err(|error| format!("{}: {error}", out.display()))?;
        print(&if self.json {
            let value = serde_json::json!({
                "file": out.display().to_string(), "kernels": kernels, "decisions": decisions,
            });
            format!("{value}\n")
        } else {
            format!(
                "{}: {kernels} kernels, {decisions} decisions of {} tables\n",
                out.display(),
                self.tables.len()
            )
        });
        Ok(())
    }

    fn told(&self, found: &[Comparison]) {
        let mut text = String::new();
        for one in found {
            let Comparison { names: [first, other], differs, kernels, ratio, spearman } = one;
            if self.json {
                let value = serde_json::json!({
                    "tables": [first, other], "differs": differs, "kernels": kernels, "ratio": ratio,
                    "spearman": spearman,
                });
                let _ = writeln!(text, "{value}");
                continue;
            }
            let number =
                |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
            let _ = writeln!(
                text,
                "{other} against {first}: {kernels} kernels in both, median ratio {}, Spearman {}",
                number(ratio),
                number(spearman)
            );
            if let Some([here, there]) = differs {
                let _ = writeln!(text, "  `{there}` against `{here}`");
            }
        }
        print(&text);
    }
}

/// Returns the file of this machine's table for the threads of the first table, and adds that table to the
/// parts.
fn own(parts: &mut Vec<Part>, registry: &Registry) -> Result<PathBuf, String> {
    let folder = ovolo::cache::home().ok_or("there is no folder for the table: name a file with --out")?;
    let threads =
        parts.first().and_then(Part::threads).ok_or("the tables do not tell their number of threads")?;
    let file = folder.join(format!("times-{threads}.txt"));
    let validators = validators(threads, registry.backends());
    let stored = match std::fs::read_to_string(&file) {
        Ok(text) => {
            let (stored, note) = read_table(&text, &validators);
            if let Some(note) = note {
                eprintln!("note: {note}");
            }
            stored
        }
        Err(_) => Stored::default(),
    };
    parts.insert(0, Part::new("this machine", validators, stored));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(file)
}

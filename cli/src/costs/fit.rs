//! `ovolo costs fit`.

use super::table::lists;
use crate::amount::count;
use crate::note::say;
use crate::page::writable;
use crate::{Outcome, print};
use clap::Args;
use ovolo::registry::Registry;
use ovolo_tune::correct::{Corrections, Quality, TimesTable, without_each_model, without_each_table};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Fit {
    /// Tables of times, as `ovolo costs table` writes them on each machine.
    #[arg(required = true, value_name = "TABLE.csv")]
    tables: Vec<PathBuf>,
    /// Write the price list to this file.
    #[arg(long, value_name = "FILE.ron")]
    out: PathBuf,
    /// Also report how well the prices predict these tables, to which they are not fitted.
    #[arg(long, value_name = "TABLE.csv", num_args = 1..)]
    check: Vec<PathBuf>,
    /// Leave out this model, and kernels that are also in it. May be given more than once.
    #[arg(long, value_name = "MODEL")]
    without: Vec<String>,
    /// Only write the price list, without a report on models and tables that are held out in turn.
    #[arg(long)]
    quick: bool,
}

impl Fit {
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let given: Vec<PathBuf> = self.tables.iter().chain(&self.check).cloned().collect();
        writable("--out ", &self.out, &given)?;
        let tables = read(&self.tables, registry)?;
        let checked = read(&self.check, registry)?;
        let models: BTreeSet<&str> =
            tables.iter().flat_map(|table| &table.kernels).map(|kernel| kernel.model.as_str()).collect();
        if let Some(strange) = self.without.iter().find(|model| !models.contains(model.as_str())) {
            let known: Vec<&str> = models.into_iter().collect();
            return Err(format!(
                "--without {strange}: no table has a model of this name; there are {}",
                known.join(", ")
            ));
        }
        let without: Vec<&str> = self.without.iter().map(String::as_str).collect();
        let corrections = match &without[..] {
            [] => Corrections::new(&tables),
            models => Corrections::without(&tables, models),
        };
        let (kinds, regimes) = corrections.size();
        if kinds == 0 {
            return Err("there is no kind of kernels of which the tables have enough: time more models with `ovolo tune`, and \
                        write their tables with `ovolo costs table`"
                .to_owned());
        }
        let text = corrections.write(&self.fitted_on(&tables));
        ovolo::file::write(&self.out, &[text.as_bytes()])
            .map_err(|error| format!("{}: {error}", self.out.display()))?;
        let mut report = format!(
            "{}: {} with {}, {} kB\n",
            self.out.display(),
            count(kinds, "kind of kernels", "kinds of kernels"),
            count(regimes, "regime", "regimes"),
            text.len().div_ceil(1000)
        );
        if !self.quick {
            section(&mut report, "model left out", &without_each_model(&tables));
            if tables.len() > 1 {
                section(&mut report, "table left out", &without_each_table(&tables));
            }
        }
        if !checked.is_empty() {
            let found: Vec<Quality> = checked.iter().map(|table| corrections.quality(table)).collect();
            section(&mut report, "table not fitted", &found);
        }
        print(&report);
        Ok(())
    }

    /// Returns what the corrections were fitted on, in a line.
    fn fitted_on(&self, tables: &[TimesTable]) -> String {
        let kernels: usize = tables.iter().map(|table| table.kernels.len()).sum();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let without = match &self.without[..] {
            [] => String::new(),
            models => format!(", without {}", models.join(", ")),
        };
        format!("{kernels} timed kernels of the tables {}{without}", names.join(", "))
    }
}

/// Reads tables of times, and notes those whose estimates are not those of the present price lists.
fn read(files: &[PathBuf], registry: &Registry) -> Result<Vec<TimesTable>, String> {
    let mut tables = Vec::new();
    for file in files {
        let table = TimesTable::read(file).map_err(|error| error.to_string())?;
        for (name, checksum) in lists(registry) {
            let mut noted = table.notes.iter().filter_map(|note| note.strip_prefix(&name));
            if !noted.any(|noted| noted.trim() == checksum) {
                say!(
                    "note: {}: its estimates are not those of the present {name}; if prices of kernels in the table \
                     have changed, write it again with `ovolo costs table`",
                    file.display()
                );
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Writes the errors and rank correlations of what was held out, by the roofline alone and with corrections.
fn section(report: &mut String, title: &str, found: &[Quality]) {
    let _ = writeln!(
        report,
        "{title:24} {:>8} {:>14} {:>10} {:>18} {:>10}",
        "kernels", "roofline error", "corrected", "roofline Spearman", "corrected"
    );
    let percent =
        |error: &Option<f64>| error.map_or_else(|| "-".to_owned(), |error| format!("{:.1} %", error * 100.0));
    let rank = |rank: &Option<f64>| rank.map_or_else(|| "-".to_owned(), |rank| format!("{rank:.3}"));
    for Quality { name, kernels, error, spearman } in found {
        let _ = writeln!(
            report,
            "{name:24} {kernels:>8} {:>14} {:>10} {:>18} {:>10}",
            percent(&error[0]),
            percent(&error[1]),
            rank(&spearman[0]),
            rank(&spearman[1])
        );
    }
}

//! `ovolo costs table`.

use crate::page::writable;
use crate::timed::{Timed, TimedModels};
use crate::{Outcome, print};
use clap::Args;
use ovolo::host;
use ovolo::registry::Registry;
use ovolo_tune::correct::{TimedKernel, TimesTable};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct Table {
    #[command(flatten)]
    timed: TimedModels,
    /// Write the table to this file.
    #[arg(long, value_name = "FILE.csv")]
    out: PathBuf,
}

impl Table {
    pub(crate) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        writable("--out ", &self.out, &self.timed.inputs())?;
        let Timed { threads, machine, examples } = self.timed.examples(registry)?;
        let mut notes = host::validators(threads, registry.backends()).machine;
        notes.push(format!(
            "{:.0} GFLOP/s, {:.1} GB/s from memory, {:.1} GB/s from cache, {:.2} us to start a kernel",
            machine.flops / 1e9,
            machine.memory / 1e9,
            machine.cache / 1e9,
            machine.start * 1e6
        ));
        notes.extend(lists(registry).map(|(name, checksum)| format!("{name} {checksum}")));
        let kernels = examples.iter().filter_map(|example| TimedKernel::new(example, &machine)).collect();
        let name = self.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let table = TimesTable { name, notes, kernels };
        ovolo::file::write(&self.out, &[table.write().as_bytes()])
            .map_err(|error| format!("{}: {error}", self.out.display()))?;
        print(&format!(
            "{}: {} kernels of {} model(s)\n",
            self.out.display(),
            table.kernels.len(),
            self.timed.models.len()
        ));
        Ok(())
    }
}

/// Returns the name and the checksum of each price list whose estimates corrections are fitted to.
pub(super) fn lists(registry: &Registry) -> impl Iterator<Item = (String, String)> {
    let lists = registry.catalog().prices.checksums();
    lists.filter(|(name, _)| *name != super::FITTED).map(|(name, checksum)| (name.to_owned(), checksum))
}

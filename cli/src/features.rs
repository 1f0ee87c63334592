//! `ovolo features`.

use super::page::writable;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::cost::FEATURES;
use ovolo::registry::Registry;
use ovolo::stage::PricedKernel;
use ovolo_lab::report;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
#[command(after_help = columns())]
pub(super) struct Features {
    #[command(flatten)]
    settings: Settings,
    /// Write the table to this file instead of standard output.
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
    /// Print JSON: an array with an object for each kernel.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// The last columns, with their descriptions.
const LAST: [(&str, &str); 2] = [
    (
        "measured",
        "1 if the price was measured, 0 if it was estimated in place of that; empty if the model does not measure",
    ),
    ("seconds", "the price by the cost model; empty if it has none"),
];

/// Returns a line of names, then a line for each kernel.
fn table(kernels: &[PricedKernel]) -> Vec<Vec<String>> {
    let names = FEATURES.iter().map(|feature| feature.name).chain(LAST.map(|(name, _)| name));
    let mut lines: Vec<Vec<String>> = vec![names.map(str::to_owned).collect()];
    for kernel in kernels {
        let values = kernel.features.iter().map(ToString::to_string);
        let seconds = kernel.seconds.map(|seconds| seconds.to_string()).unwrap_or_default();
        let measured = kernel.measured.map(|measured| u8::from(measured).to_string()).unwrap_or_default();
        lines.push(values.chain([measured, seconds]).collect());
    }
    lines
}

/// Describes each column.
fn columns() -> String {
    let known = FEATURES.iter().map(|feature| (feature.name, feature.doc));
    let lines = known.chain(LAST).map(|(name, doc)| format!("  {name:15} {doc}\n"));
    format!("Columns:\n{}", lines.collect::<String>())
}

impl Features {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        if let Some(file) = &self.out {
            writable("--out ", file, &self.settings.inputs())?;
            let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
            if ending.as_deref().is_some_and(|ending| !["csv", "txt"].contains(&ending)) {
                return Err(format!(
                    "--out {}: the table is written as CSV, so name a file that ends in .csv; convert it to other forms, such as \
                     Parquet, afterwards: `pandas.read_csv(…).to_parquet(…)`",
                    file.display()
                ));
            }
        }
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let graph = self.settings.graph(registry)?;
        let kernels = options.saturate(&graph).and_then(|saturated| options.features(&saturated));
        let kernels = kernels.map_err(|error| error.to_string())?;
        if self.json {
            print(&format!("{}\n", report::kernels(&kernels)));
            return Ok(());
        }
        let lines = table(&kernels);
        let mut table = csv::Writer::from_writer(Vec::new());
        for line in &lines {
            table.write_record(line).map_err(|error| error.to_string())?;
        }
        let bytes = table.into_inner().map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        match &self.out {
            Some(file) => {
                ovolo::file::write(file, &[text.as_bytes()])
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                let kernels = lines.len() - 1;
                print(&format!("{}: {kernels} kernels, {} columns\n", file.display(), lines[0].len()));
            }
            None => print(&text),
        }
        Ok(())
    }
}

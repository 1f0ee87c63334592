//! `ovolo pack`.

use super::amount::memory;
use super::load::bar;
use super::{Outcome, print};
use clap::Args;
use ovolo::memory::{Exact, Packing};
use ovolo_lab::buffer::Table;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Pack {
    /// Tables of buffers: CSV with the columns id, lower, upper, size, and perhaps alignment. A buffer
    /// is live from `lower` up to but not including `upper`.
    #[arg(required = true, value_name = "FILE.csv")]
    files: Vec<PathBuf>,
    /// Write each table with its offsets to DIR/NAME.csv.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Bytes that are enough, such as 1048576 or 1MiB: the search ends there, and what needs more fails.
    /// Default: the fewest.
    #[arg(long, value_name = "BYTES", value_parser = capacity)]
    capacity: Option<usize>,
    /// How many steps the search may take for each table: some tens of microseconds each. With thousands of
    /// buffers the heuristics before it count as well; the first of them is always done.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    steps: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A table and where it goes.
struct Job<'a> {
    name: String,
    file: &'a Path,
    target: PathBuf,
    table: Table,
}

impl Pack {
    pub(super) fn run(&self) -> Outcome {
        let capacity = self.capacity.unwrap_or(0);
        let planner = Exact { steps: self.steps, capacity };
        let jobs = self.jobs()?;
        std::fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        for job in &jobs {
            let packing = plan(&planner, &job.table);
            let fits = self.capacity.is_none() || packing.peak <= capacity;
            if fits {
                let text = job.table.write(&packing);
                ovolo::file::write(&job.target, &[text.as_bytes()])
                    .map_err(|error| format!("{}: {error}", job.target.display()))?;
            } else {
                failures.push(too_large(job, &packing, capacity));
            }
            let Packing { peak, lower_bound, steps, gained, .. } = packing;
            if self.json {
                rows.push(serde_json::json!({
                    "name": job.name, "file": fits.then_some(&job.target), "bytes": peak,
                    "lower_bound": lower_bound, "proven": packing.proven, "steps": steps,
                    "gained": gained, "fits": fits,
                }));
            } else {
                let name = &job.name;
                let proven = if packing.proven { "proven optimal" } else { "not proven optimal" };
                let vain = match steps - gained {
                    vain if vain > 0 && !packing.proven => format!(", the last {vain} without gain"),
                    _ => String::new(),
                };
                print(&format!(
                    "{name}: {peak} bytes, lower bound {lower_bound}, {proven}, {steps} steps{vain}\n"
                ));
            }
        }
        if self.json {
            print(&format!("{}\n", serde_json::json!({ "tables": rows })));
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    /// Reads every table before anything is written; all mistakes of all files are reported at once.
    fn jobs(&self) -> Result<Vec<Job<'_>>, String> {
        let mut jobs: Vec<Job> = Vec::new();
        let mut wrong = Vec::new();
        let mut targets: BTreeMap<PathBuf, &Path> = BTreeMap::new();
        for file in &self.files {
            let shown = file.display();
            let bytes = match std::fs::read(file) {
                Ok(bytes) => bytes,
                Err(error) => {
                    wrong.push(format!("{shown}: {error}"));
                    continue;
                }
            };
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let target = self.out.join(format!("{name}.csv"));
            if let Some(other) = targets.insert(target.clone(), file) {
                let other = other.display();
                wrong.push(format!(
                    "{shown} and {other} would both be written to {}; pack them into different directories",
                    target.display()
                ));
            }
            if let Some(input) = self.files.iter().find(|input| ovolo::file::same(input, &target)) {
                let input = input.display();
                wrong.push(format!("{input} would be overwritten; choose another directory for --out"));
            }
            match Table::read(&shown.to_string(), &bytes) {
                Ok(table) => jobs.push(Job { name, file, target, table }),
                Err(found) => wrong.push(found.to_string().trim_start_matches("error: ").to_owned()),
            }
        }
        if wrong.is_empty() { Ok(jobs) } else { Err(wrong.join("\nerror: ")) }
    }
}

/// Bytes that are enough: some.
fn capacity(text: &str) -> Result<usize, String> {
    match memory(text)? {
        0 => Err("nothing fits in no bytes".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Packs a table, with a bar while it is searched.
fn plan(planner: &Exact, table: &Table) -> Packing {
    let mut bar = bar("packing", "steps");
    let count = |steps: u64| usize::try_from(steps).unwrap_or(usize::MAX);
    let mut shown = (0, 0);
    let packing = planner.plan_with(&table.buffers, &mut |done, all| {
        shown = (count(done), count(all));
        if shown.0 < shown.1 {
            bar(shown.0, shown.1);
        }
    });
    if shown.1 > 0 {
        // The search is over, wherever it was.
        bar(shown.0, shown.0);
    }
    packing
}

fn too_large(job: &Job, packing: &Packing, capacity: usize) -> String {
    let file = job.file.display();
    let Packing { peak, lower_bound, steps, proven, .. } = packing;
    let why = if lower_bound > &capacity {
        format!("{lower_bound} bytes are live at one time; raise --capacity")
    } else if *proven {
        "and that is proven to be the least; raise --capacity".to_owned()
    } else {
        format!("the best found in {steps} steps; raise --steps or --capacity")
    };
    format!("{file}: needs {peak} bytes and {capacity} are allowed: {why}; nothing was written for it")
}

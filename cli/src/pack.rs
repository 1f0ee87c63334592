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
    /// Tables of buffers: CSV with the columns id, lower, upper, size, and optionally alignment. A buffer is
    /// live from `lower` up to but not including `upper`.
    #[arg(required = true, value_name = "FILE.csv")]
    files: Vec<PathBuf>,
    /// Write each table with its offsets to DIR/NAME.csv.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A number of bytes that is small enough, such as 1048576 or 1MiB: the search stops there, and a table
    /// that needs more fails. Default: search for the fewest bytes.
    #[arg(long, value_name = "BYTES", value_parser = capacity)]
    capacity: Option<usize>,
    /// The most steps of the search for each table; a step takes some tens of microseconds. With thousands of
    /// buffers, the heuristics before the search count as well, except the first, which always runs.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    steps: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A table and its output file.
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

    /// Reads every table before anything is written, and reports all mistakes of all files together.
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

/// Parses the number of bytes that is small enough.
fn capacity(text: &str) -> Result<usize, String> {
    match memory(text)? {
        0 => Err("--capacity must be at least 1 byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Packs a table, with a bar during the search.
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
        // The search is over, whether or not it reached the last step.
        bar(shown.0, shown.0);
    }
    packing
}

fn too_large(job: &Job, packing: &Packing, capacity: usize) -> String {
    let file = job.file.display();
    let Packing { peak, lower_bound, steps, proven, .. } = packing;
    let why = if lower_bound > &capacity {
        format!("{lower_bound} bytes are live at the same time; raise --capacity")
    } else if *proven {
        "this is proven to be the minimum; raise --capacity".to_owned()
    } else {
        format!("this is the best found in {steps} steps; raise --steps or --capacity")
    };
    format!("{file}: needs {peak} bytes, but {capacity} are allowed: {why}; no output was written for it")
}

//! Experiments: models × pipelines × cost models × extractors × seeds, from one file.
//!
//! Takes a [`Spec`], runs its tasks one after another, and keeps the result of each as a line of JSON in a
//! folder; an interrupted run continues there. At the end, tables as CSV and a page with plots are written. A
//! shard runs a part of the tasks. The results of all shards are merged into those of one run; results of
//! different machines are only shown side by side.

mod merge;
mod run;
mod spec;
mod store;
mod table;
mod task;

pub use merge::{MergeError, merge};
pub use spec::{Cost, Model, PARTS, SAMPLE, Spec};
pub use store::{Head, Store, StoreError};
pub use table::Table;
pub use task::{Cell, Task};

use crate::report;
use ovolo::cost::Machine;
use ovolo::error::Error;
use ovolo::registry::Registry;
use ovolo_tune::Shard;
use ovolo_tune::calibrate;
use run::Runner;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use table::Results;

/// The progress of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of tasks that are done.
    pub done: usize,
    /// The number of tasks of this run.
    pub all: usize,
    /// The task that starts.
    pub task: String,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of tasks of the run.
    pub tasks: usize,
    /// The number of tasks that were done before.
    pub known: usize,
    /// The number of tasks that had failed before, completely or in part, and were run again.
    pub again: usize,
    /// The tasks without a complete result, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Further messages.
    pub notes: Vec<String>,
    /// The files that were written in addition to the results.
    pub files: Vec<String>,
}

/// Runs an experiment, or a shard of it, in a folder, with the contents of a registry. `told` is called
/// before each task; if it returns `false`, the run ends and can be continued later.
///
/// # Errors
/// An error if the folder has results of something else, if a model cannot be read, or if the system reports
/// one. A task that fails is a result and not an error.
pub fn run(
    spec: &Spec,
    registry: &Arc<Registry>,
    folder: &Path,
    shard: Shard,
    told: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Outcome, Error> {
    let machine = match spec.machine {
        Some(machine) => machine,
        None if spec.calibrated() => calibrate::machine(registry, spec.threads).machine,
        None => Machine::NOMINAL,
    };
    let mut store = Store::open(folder, Head::new(spec, registry, machine, shard)?)?;
    let mut runner = Runner::new(spec, registry, store.head.machine)?;
    let stopped = || Error::Stopped { task: "the experiment", kept: "the finished tasks are kept" };
    let all = Task::all(spec);
    let tasks: Vec<Task> =
        all.iter().enumerate().filter(|(at, _)| shard.has(*at)).map(|(_, task)| *task).collect();
    let mut outcome = Outcome { tasks: tasks.len(), ..Outcome::default() };
    let whole = |store: &Store, name: &str| store.done.get(name).is_some_and(|result| why(result).is_none());
    let left = tasks.iter().any(|task| !whole(&store, &task.name(spec)));
    // If no task is left, nothing needs to be priced again.
    if spec.timed() && (left || !store.has_times()) {
        let mut goes_on = true;
        let all = tasks.len();
        let times = runner.settle(&mut |task| {
            goes_on = told(&Progress { done: 0, all, task });
            goes_on
        })?;
        let Some(times) = times.filter(|_| goes_on) else { return Err(stopped()) };
        store.hold_times(&times)?;
    }
    for (done, task) in tasks.iter().enumerate() {
        let name = task.name(spec);
        if whole(&store, &name) {
            outcome.known += 1;
            continue;
        }
        outcome.again += usize::from(store.done.contains_key(&name));
        if !told(&Progress { done, all: tasks.len(), task: name.clone() }) {
            return Err(stopped());
        }
        let result = runner.run(task).unwrap_or_else(|error| json!({"error": error.to_string()}));
        store.add(&name, result)?;
    }
    outcome.notes.extend(runner.notes());
    store.sort(spec, &tasks)?;
    outcome.failed = failed(&store.done);
    if shard.whole() {
        outcome.files = finish(spec, folder, &store.head, &[(String::new(), &store.done)])?;
    }
    Ok(outcome)
}

fn failed(done: &BTreeMap<String, Value>) -> Vec<(String, String)> {
    done.iter().filter_map(|(task, result)| Some((task.clone(), why(result)?))).collect()
}

/// Why a result is absent or incomplete.
fn why(result: &Value) -> Option<String> {
    if let Some(error) = result["error"].as_str() {
        return Some(error.to_owned());
    }
    lacking(result).into_iter().next().map(|(what, error)| format!("{what}: {error}"))
}

/// The cells that are missing in a race, each with the reason.
fn lacking(result: &Value) -> Vec<(String, String)> {
    let cells = result["failed"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |cell: &Value| {
        let words: Vec<String> = ["pipeline", "cost", "extractor"].map(|key| text(&cell[key])).into();
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        (words.join(" "), text(&cell["error"]))
    };
    cells.iter().map(one).collect()
}

/// Writes the tables and the page, and returns the names of the files.
fn finish(
    spec: &Spec,
    folder: &Path,
    head: &Head,
    hosts: &[(String, &BTreeMap<String, Value>)],
) -> Result<Vec<String>, Error> {
    let (tables, empty): (Vec<Table>, Vec<Table>) = Results { spec, hosts: hosts.to_vec() }
        .tables()
        .into_iter()
        .partition(|table| !table.lines.is_empty());
    // A table of an earlier run may no longer exist, such as that of failed tasks.
    for table in &empty {
        store::remove(folder, &format!("{}.csv", table.name))?;
    }
    let mut files = Vec::new();
    for table in &tables {
        let name = format!("{}.csv", table.name);
        store::write(folder, &name, &table.csv())?;
        files.push(name);
    }
    let named = tables
        .iter()
        .map(|table| (table.name.to_owned(), json!({"columns": table.columns, "lines": table.lines})));
    let data = json!({
        "title": spec.name, "spec": &*spec.source.text, "fields": head.fields,
        "tables": named.collect::<serde_json::Map<String, Value>>(),
    });
    let page = "report.html".to_owned();
    store::write(folder, &page, &report::experiment(&data))?;
    files.push(page);
    Ok(files)
}

impl Spec {
    /// Whether any price comes from the table of times.
    pub fn timed(&self) -> bool {
        self.costs.iter().any(|cost| cost.kind == "measured")
    }

    /// Whether any result depends on the speeds of the machine.
    pub fn calibrated(&self) -> bool {
        self.costs.iter().any(|cost| cost.kind != "flops")
    }
}

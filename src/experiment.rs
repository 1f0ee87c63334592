//! Experiments: models × pipelines × cost models × extractors × seeds, from one file.
//!
//! Takes a [`Spec`], does its tasks one after another, and keeps the result of each as a line of JSON in a
//! folder; what was interrupted goes on there. When all are done, tables as CSV and a page with plots are
//! written beside them. A shard does every so manieth task; the results of all shards are merged into what
//! one run would have given, and those of different machines are only put beside each other.

mod merge;
mod run;
mod spec;
mod store;
mod table;
mod task;

pub use merge::merge;
pub use spec::{Cost, Model, PARTS, SAMPLE, Spec};
pub use store::{Head, Store};
pub use table::Table;
pub use task::{Cell, Task};

use crate::calibrate;
use crate::cost::Machine;
use crate::error::Error;
use crate::report;
use crate::tune::Shard;
use run::Runner;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use table::Results;

/// How far an experiment has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that are done.
    pub done: usize,
    /// Tasks of this run.
    pub all: usize,
    /// The task that begins.
    pub task: String,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks of the run.
    pub tasks: usize,
    /// Those that were done before.
    pub known: usize,
    /// Those that have no result, each with the reason.
    pub failed: Vec<(String, String)>,
    /// What there is to say besides.
    pub notes: Vec<String>,
    /// The files that were written beside the results.
    pub files: Vec<String>,
}

/// Does an experiment, or a shard of it, in a folder. `told` hears of each task before it begins; where it
/// answers `false` the run ends, and can be gone on with.
///
/// # Errors
/// Results of something else in the folder, a model that cannot be read, what the system says. A task that
/// fails is a result, and no error.
pub fn run(
    spec: &Spec,
    folder: &Path,
    shard: Shard,
    told: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Outcome, Error> {
    let machine = match spec.machine {
        Some(machine) => machine,
        None if spec.calibrated() => calibrate::machine(spec.threads).machine,
        None => Machine::NOMINAL,
    };
    let mut store = Store::open(folder, Head::new(spec, machine, shard)?)?;
    let mut runner = Runner::new(spec, store.head.machine)?;
    let all = Task::all(spec);
    let tasks: Vec<Task> =
        all.iter().enumerate().filter(|(at, _)| shard.has(*at)).map(|(_, task)| *task).collect();
    let mut outcome = Outcome { tasks: tasks.len(), ..Outcome::default() };
    for (done, task) in tasks.iter().enumerate() {
        let name = task.name(spec);
        if store.done.contains_key(&name) {
            outcome.known += 1;
            continue;
        }
        if !told(&Progress { done, all: tasks.len(), task: name.clone() }) {
            return Err(Error::setting("the experiment was stopped; what was done is kept"));
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
    let why = |(task, result): (&String, &Value)| Some((task.clone(), result["error"].as_str()?.to_owned()));
    done.iter().filter_map(why).collect()
}

/// Writes the tables and the page; the names of the files.
fn finish(
    spec: &Spec,
    folder: &Path,
    head: &Head,
    hosts: &[(String, &BTreeMap<String, Value>)],
) -> Result<Vec<String>, Error> {
    let tables = Results { spec, hosts: hosts.to_vec() }.tables();
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
    /// Whether anything hangs on the speeds of the machine.
    pub fn calibrated(&self) -> bool {
        self.costs.iter().any(|cost| cost.kind != "flops")
    }
}

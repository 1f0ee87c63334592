//! Merges the results of shards into those of one run, or shows those of several machines side by side.

use super::store::{self, Head, Store, TIMES};
use super::task::Task;
use super::{Outcome, Spec, failed, finish};
use ovolo::error::Error;
use ovolo_tune::Shard;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Fields that describe a machine and its libraries. All others describe the experiment.
const HOST: &[&str] = &["build", "ovolo", "processor", "features", "threads", "speeds", TIMES];
const BACKEND: &str = "backend ";

/// The reason why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No folder was given.
    #[error("there is nothing to merge")]
    Nothing,
    /// The folder for the result has results already.
    #[error("{}: the folder already has results: name another one", .folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
    /// Results of two folders do not belong together.
    #[error("{first} and {}: {why}", .folder.display())]
    Apart {
        /// The name of the first folder.
        first: String,
        /// The other one.
        folder: PathBuf,
        /// In what they differ, and what to do.
        why: String,
    },
    /// Results are of a different experiment.
    #[error("{}: these results are of a different spec than those of {spec}", .folder.display())]
    OtherSpec {
        /// The folder of the results.
        folder: PathBuf,
        /// The experiment.
        spec: String,
    },
    /// A task has results in two folders.
    #[error("`{task}` is both in {} and in {}: give each shard once", .one.display(), .other.display())]
    Twice {
        /// The task.
        task: String,
        /// One folder.
        one: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Tasks have no result.
    #[error(
        "{lacking} of {tasks} tasks have no result under the conditions of {group}, the first is `{first}`: give the folders \
         of all shards, each finished{}",
        if *.several { ": to compare machines, each must have done all tasks" } else { "" }
    )]
    Incomplete {
        /// The number of tasks without a result.
        lacking: usize,
        /// The number of all tasks.
        tasks: usize,
        /// The name of the first folder with these conditions.
        group: String,
        /// The first task without a result.
        first: String,
        /// Whether there are results under several conditions.
        several: bool,
    },
}

/// Results that hold under the same conditions.
struct Group {
    name: String,
    head: Head,
    done: BTreeMap<String, Value>,
}

/// Merges the results of a spec in some folders into a new folder, with tables and page. Results of different
/// versions, libraries or hardware are refused; with `compare` they are kept apart, and each line has the
/// name of the first folder of its group.
///
/// # Errors
/// An error if there are results of another experiment, or of other machines without `compare`, or if a task
/// is in two of the folders or in none.
pub fn merge(spec: &Spec, folders: &[PathBuf], out: &Path, compare: bool) -> Result<Outcome, Error> {
    let groups = gather(spec, folders, compare)?;
    check_complete(spec, &groups)?;
    let Some(first) = groups.first() else { return Err(Error::other(MergeError::Nothing)) };
    if out.join("head.json").exists() {
        return Err(Error::other(MergeError::Taken { folder: out.to_owned() }));
    }
    store_all(spec, out, &groups)?;
    let hosts: Vec<(String, &BTreeMap<String, Value>)> =
        groups.iter().map(|group| (group.name.clone(), &group.done)).collect();
    let files = finish(spec, out, &first.head, &hosts)?;
    Ok(Outcome {
        tasks: Task::all(spec).len(),
        known: groups.iter().map(|group| group.done.len()).sum(),
        again: 0,
        failed: groups.iter().flat_map(|group| failed(&group.done)).collect(),
        notes: Vec::new(),
        files,
    })
}

/// Reads the results of the folders, and groups those that were measured under the same conditions.
fn gather(spec: &Spec, folders: &[PathBuf], compare: bool) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    let mut tasks_of: BTreeMap<(usize, String), &PathBuf> = BTreeMap::new();
    for folder in folders {
        let store = Store::read(folder)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(first) = groups.first()
            && let Some(why) = refused(&first.head, &store.head, compare)
        {
            let first = first.name.clone();
            return Err(Error::other(MergeError::Apart { first, folder: folder.clone(), why }));
        }
        if store.head.spec != *spec.source.text {
            let spec = spec.source.name.to_string();
            return Err(Error::other(MergeError::OtherSpec { folder: folder.clone(), spec }));
        }
        let fits = |group: &Group| group.head.differs(&store.head, &[]).is_none();
        let at = groups.iter().position(fits).unwrap_or_else(|| {
            groups.push(Group { name, head: store.head.clone(), done: BTreeMap::new() });
            groups.len() - 1
        });
        for (task, value) in store.done {
            if let Some(other) = tasks_of.insert((at, task.clone()), folder) {
                let (one, other) = (other.clone(), folder.clone());
                return Err(Error::other(MergeError::Twice { task, one, other }));
            }
            groups[at].done.insert(task, value);
        }
    }
    Ok(groups)
}

/// Checks that each group has a result of every task.
fn check_complete(spec: &Spec, groups: &[Group]) -> Result<(), Error> {
    let all = Task::all(spec);
    for group in groups {
        let lacking: Vec<String> =
            all.iter().map(|task| task.name(spec)).filter(|name| !group.done.contains_key(name)).collect();
        if let Some(first) = lacking.first() {
            return Err(Error::other(MergeError::Incomplete {
                lacking: lacking.len(),
                tasks: all.len(),
                group: group.name.clone(),
                first: first.clone(),
                several: groups.len() > 1,
            }));
        }
    }
    Ok(())
}

/// Writes the results of all groups into a folder. A single group is stored like one run. Several groups are stored
/// in one file, with the names of the machines.
fn store_all(spec: &Spec, out: &Path, groups: &[Group]) -> Result<(), Error> {
    let all = Task::all(spec);
    if let [first] = groups {
        let mut store = Store::open(out, Head { shard: Shard::WHOLE, ..first.head.clone() })?;
        for task in &all {
            let name = task.name(spec);
            if let Some(result) = first.done.get(&name) {
                store.add(&name, result.clone())?;
            }
        }
    } else {
        // Nothing can continue here, because these are results of several machines.
        let lines = groups.iter().flat_map(|group| {
            let host = group.name.as_str();
            all.iter().filter_map(move |task| {
                let mut line = group.done.get(&task.name(spec))?.clone();
                line["host"] = host.into();
                Some(format!("{line}\n"))
            })
        });
        store::write(out, "compared.jsonl", &lines.collect::<String>())?;
    }
    Ok(())
}

/// Returns why two results cannot be combined.
fn refused(first: &Head, other: &Head, compare: bool) -> Option<String> {
    let host = |name: &str| HOST.contains(&name) || name.starts_with(BACKEND);
    let hosts: Vec<&str> = first
        .fields
        .iter()
        .chain(&other.fields)
        .map(|(name, _)| name.as_str())
        .filter(|name| host(name))
        .collect();
    if let Some((name, here, there)) = first.differs(other, &hosts) {
        return Some(format!("these are results of different experiments: {name} is {here} and {there}"));
    }
    let (name, here, there) = first.differs(other, &[]).filter(|_| !compare)?;
    let help = match name {
        "speeds" => "write the `machine` that all shards must use into the spec, or",
        TIMES => {
            "kernels were priced by other times: give all shards one table, such as `ovolo merge-times` makes of \
             several, or"
        }
        _ => "they hold under different conditions:",
    };
    Some(format!(
        "{name} is {here} and {there}; {help} compare them with --compare, if each machine has done all \
         tasks"
    ))
}

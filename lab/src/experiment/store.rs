//! Stores the results of an experiment in a folder: the conditions under which they hold, and a line of JSON
//! for each task.
//!
//! A line is written completely when its task is done. An incomplete line is dropped and its task run again.
//! Results of another spec, version or machine are not continued.

use super::spec::Spec;
use super::task::Task;
use ovolo::cache::{Builds, Digest, build};
use ovolo::cost::{Machine, Validators};
use ovolo::error::Error;
use ovolo::file;
use ovolo::host::validators;
use ovolo::registry::Registry;
use ovolo::subprocess::Invocation;
use ovolo_tune::Shard;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const HEAD: &str = "head.json";
const RESULTS: &str = "results.jsonl";
/// The version of the format of results.
const FORMAT: &str = "2";
/// The field for the times by which kernels were priced: a digest of the lines that were used.
pub(super) const TIMES: &str = "times";
/// The builds of the crates that run the tasks.
const BUILDS: Builds =
    &[("ovolo-lab", crate::BUILD), ("ovolo-proof", ovolo_proof::BUILD), ("ovolo-tune", ovolo_tune::BUILD)];
const NOT_ASKED: &str = "not asked";
/// The value before the lines are known.
const NOT_YET: &str = "not yet";

/// The conditions under which results hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The experiment's name.
    pub name: String,
    /// The spec's text, so that results are self-contained.
    pub spec: String,
    /// Names and values that must be equal for results to be combined.
    pub fields: Vec<(String, String)>,
    /// The speeds that cost models used.
    pub machine: Machine,
    /// The shard of the tasks.
    pub shard: Shard,
}

/// Returns what the answers of a program depend on: its command, and the digests of the files that the command names.
fn contents(program: &Invocation, threads: usize) -> Result<Vec<String>, Error> {
    let mut texts = vec![program.command.clone()];
    for file in program.files() {
        texts.push(Digest::read_file(&file, threads).map_err(Error::io(&file))?.to_string());
    }
    Ok(texts)
}

impl Head {
    /// Returns the conditions for the results of a spec on this machine with this registry.
    ///
    /// # Errors
    /// An error if a file cannot be read.
    pub fn new(spec: &Spec, registry: &Registry, machine: Machine, shard: Shard) -> Result<Self, Error> {
        let mut fields = vec![
            ("format".to_owned(), FORMAT.to_owned()),
            ("spec".to_owned(), Digest::texts([&*spec.source.text]).to_string()),
        ];
        for model in &spec.models {
            let digest = Digest::read_file(&model.file, spec.threads).map_err(Error::io(&model.file))?;
            fields.push((format!("model {}", model.name), digest.to_string()));
        }
        for (name, pipeline) in &spec.pipelines {
            fields.push((format!("pipeline {name}"), Digest::texts([&*pipeline.source.text]).to_string()));
        }
        for cost in &spec.costs {
            let mut texts: Vec<String> = cost.text.iter().map(|source| source.text.to_string()).collect();
            let program = cost.program.as_ref().and_then(|program| program.program.as_ref());
            texts.extend(program.map_or_else(|| Ok(Vec::new()), |program| contents(program, spec.threads))?);
            if !texts.is_empty() {
                let digest = Digest::texts(texts.iter().map(String::as_str));
                fields.push((format!("cost model {}", cost.name), digest.to_string()));
            }
        }
        for extractor in &spec.extractors {
            if let Some(program) = extractor.program.as_ref().and_then(|program| program.program.as_ref()) {
                let texts = contents(program, spec.threads)?;
                let digest = Digest::texts(texts.iter().map(String::as_str));
                fields.push((format!("extractor {}", extractor.name), digest.to_string()));
            }
        }
        fields.push(("build".to_owned(), build(registry, BUILDS)));
        let Validators { machine: lines, libraries } = validators(spec.threads, registry.backends());
        for line in &lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            fields.push((name.to_owned(), value.to_owned()));
        }
        let backends: BTreeSet<&String> = spec.pipelines.iter().flat_map(|(_, one)| &one.backends).collect();
        for backend in backends {
            let library = libraries.get(backend).map_or("not there", String::as_str);
            fields.push((format!("backend {backend}"), library.to_owned()));
        }
        let speeds = if spec.calibrated() { format!("{machine:?}") } else { NOT_ASKED.to_owned() };
        fields.push(("speeds".to_owned(), speeds));
        fields.push((TIMES.to_owned(), if spec.timed() { NOT_YET } else { NOT_ASKED }.to_owned()));
        Ok(Self { name: spec.name.clone(), spec: spec.source.text.to_string(), fields, machine, shard })
    }

    /// Returns the first field in which other results differ, except those in `but`: its name, and both
    /// values.
    pub fn differs<'h>(&'h self, other: &'h Self, but: &[&str]) -> Option<(&'h str, &'h str, &'h str)> {
        let value = |head: &'h Self, name: &str| {
            head.fields.iter().find(|(known, _)| known == name).map_or("nothing", |(_, value)| value.as_str())
        };
        let names = self.fields.iter().chain(&other.fields).map(|(name, _)| name.as_str());
        names
            .filter(|name| !but.contains(name))
            .map(|name| (name, value(self, name), value(other, name)))
            .find(|(_, here, there)| here != there)
    }

    /// Reads the conditions of the results in a folder.
    ///
    /// # Errors
    /// An error if the folder has no results, or if `head.json` cannot be parsed.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(HEAD);
        let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
        serde_json::from_str(&text).map_err(|source| Error::other(StoreError::Damaged { path, source }))
    }
}

/// The reason why results in a folder cannot be read or continued.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file with the conditions cannot be read.
    #[error("{}: this is not a valid `head.json`: {source}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The results are of another spec.
    #[error(
        "{}: the folder has results of another spec, whose line {line} is `{there}`; here it is `{here}`; remove the folder, \
         or name another one with --out",
        .folder.display()
    )]
    Spec {
        /// The folder.
        folder: PathBuf,
        /// The number of the first line that differs.
        line: usize,
        /// This line here.
        here: String,
        /// This line in the spec of the folder.
        there: String,
    },
    /// The results hold under other conditions.
    #[error(
        "{}: the folder has results of another experiment, version or machine: {name} is {there}, and here {here}; remove \
         it, or name another folder with --out",
        .folder.display()
    )]
    Differs {
        /// The folder.
        folder: PathBuf,
        /// The first condition that differs.
        name: String,
        /// Its value here.
        here: String,
        /// Its value in the folder.
        there: String,
    },
    /// The results are of another shard.
    #[error(
        "{}: the folder has results of shard {there}, but this is shard {here}: name another folder with --out",
        .folder.display()
    )]
    Shard {
        /// The folder.
        folder: PathBuf,
        /// Its shard.
        there: Shard,
        /// The shard that was asked for.
        here: Shard,
    },
    /// The conditions lack the times of kernels.
    #[error("{}: `head.json` has no field for times", .folder.display())]
    NoTimes {
        /// The folder.
        folder: PathBuf,
    },
    /// The results depend on other times of kernels.
    #[error(
        "{}: its kernels were priced by other times: {there}, and here {here}; remove the folder, name another folder with \
         --out, or restore the table of times",
        .folder.display()
    )]
    Times {
        /// The folder.
        folder: PathBuf,
        /// The digest of the times in the folder.
        there: String,
        /// The digest of the times here.
        here: String,
    },
}

/// Returns the error that a folder has results of another spec, with the first line that differs.
fn another_spec(folder: PathBuf, here: &str, there: &str) -> StoreError {
    let (mut ours, mut theirs) = (here.lines(), there.lines());
    let mut line = 0;
    loop {
        line += 1;
        let (one, other) = (ours.next(), theirs.next());
        if one != other || one.is_none() {
            let shown = |line: Option<&str>| line.unwrap_or("").trim().to_owned();
            return StoreError::Spec { folder, line, here: shown(one), there: shown(other) };
        }
    }
}

/// The results in a folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The conditions under which they hold.
    pub head: Head,
    /// The results by the names of their tasks.
    pub done: BTreeMap<String, Value>,
}

impl Store {
    /// Opens a new folder, or one with results under the same conditions as `head`.
    ///
    /// # Errors
    /// An error if the folder has other results, or if the system reports one.
    pub fn open(folder: &Path, head: Head) -> Result<Self, Error> {
        if !folder.join(HEAD).exists() {
            std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
            let store = Self { folder: folder.to_owned(), head, done: BTreeMap::new() };
            store.write_head()?;
            return Ok(store);
        }
        let kept = Head::read(folder)?;
        // Speeds that were measured at the start are used to the end. Times are compared when they are known.
        if let Some((name, here, there)) = head.differs(&kept, &["speeds", TIMES]) {
            let (folder, name) = (folder.to_owned(), name.to_owned());
            if head.spec != kept.spec {
                return Err(Error::other(another_spec(folder, &head.spec, &kept.spec)));
            }
            let (here, there) = (here.to_owned(), there.to_owned());
            return Err(Error::other(StoreError::Differs { folder, name, here, there }));
        }
        if kept.shard != head.shard {
            let (folder, there, here) = (folder.to_owned(), kept.shard, head.shard);
            return Err(Error::other(StoreError::Shard { folder, there, here }));
        }
        let mut store = Self { folder: folder.to_owned(), head: kept, done: BTreeMap::new() };
        store.done = store.lines()?;
        Ok(store)
    }

    fn write_head(&self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(&self.head).map_err(Error::other)?;
        let path = self.folder.join(HEAD);
        file::write(&path, &[text.as_bytes(), b"\n"]).map_err(Error::io(&path))
    }

    /// Whether the times that the results depend on are known.
    pub fn has_times(&self) -> bool {
        self.head.fields.iter().any(|(name, value)| name == TIMES && value != NOT_YET)
    }

    /// Records that the results depend on times with this digest.
    ///
    /// # Errors
    /// An error if the results depend on other times, or if the system reports one.
    pub fn hold_times(&mut self, digest: &str) -> Result<(), Error> {
        let Some((_, kept)) = self.head.fields.iter_mut().find(|(name, _)| name == TIMES) else {
            return Err(Error::other(StoreError::NoTimes { folder: self.folder.clone() }));
        };
        match kept.as_str() {
            NOT_YET => {
                digest.clone_into(kept);
                self.write_head()
            }
            kept if kept == digest => Ok(()),
            kept => Err(Error::other(StoreError::Times {
                folder: self.folder.clone(),
                there: kept.to_owned(),
                here: digest.to_owned(),
            })),
        }
    }

    /// Reads the results in a folder.
    ///
    /// # Errors
    /// An error if the folder has no results.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut store = Self { folder: folder.to_owned(), head: Head::read(folder)?, done: BTreeMap::new() };
        store.done = store.lines()?;
        Ok(store)
    }

    /// Returns the complete lines, and removes an incomplete one at the end.
    fn lines(&self) -> Result<BTreeMap<String, Value>, Error> {
        let path = self.folder.join(RESULTS);
        if !path.exists() {
            return Ok(BTreeMap::new());
        }
        let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
        let (mut done, mut whole) = (BTreeMap::new(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let value = serde_json::from_slice::<Value>(line).ok().filter(|_| line.ends_with(b"\n"));
            let Some((name, value)) =
                value.and_then(|value| Some((value["task"].as_str()?.to_owned(), value)))
            else {
                break;
            };
            done.insert(name, value);
            whole += line.len();
        }
        if whole < bytes.len() {
            file::write(&path, &[&bytes[..whole]]).map_err(Error::io(&path))?;
        }
        Ok(done)
    }

    /// Adds the result of a task.
    ///
    /// # Errors
    /// The system's error.
    pub fn add(&mut self, task: &str, mut value: Value) -> Result<(), Error> {
        value["task"] = task.into();
        let path = self.folder.join(RESULTS);
        let line = format!("{value}\n");
        file::append(&path, line.as_bytes()).map_err(Error::io(&path))?;
        self.done.insert(task.to_owned(), value);
        Ok(())
    }

    /// Writes the results in the order of the tasks.
    ///
    /// # Errors
    /// The system's error.
    pub fn sort(&self, spec: &Spec, tasks: &[Task]) -> Result<(), Error> {
        let lines = tasks.iter().filter_map(|task| self.done.get(&task.name(spec)));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let path = self.folder.join(RESULTS);
        file::write(&path, &[text.as_bytes()]).map_err(Error::io(&path))
    }
}

/// Removes a file from a folder of results, if it exists.
///
/// # Errors
/// The system's error.
pub(super) fn remove(folder: &Path, name: &str) -> Result<(), Error> {
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if !file::is_absent(&error) => Err(Error::io(&path)(error)),
        _ => Ok(()),
    }
}

/// Writes a file into a folder of results, and creates the folder if needed.
///
/// # Errors
/// The system's error.
pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    file::write(&path, &[text.as_bytes()]).map_err(Error::io(&path))
}

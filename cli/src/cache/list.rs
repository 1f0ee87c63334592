//! `ovolo cache list`.

use super::super::amount::{count, size};
use super::super::{Outcome, print};
use super::{open, short, shown};
use clap::Args;
use ovolo::backend::Backends;
use ovolo::cache::{Entry, Item, Kind, Miss};
use ovolo::cost::Machine;
use ovolo::registry::Registry;
use ovolo_tune::Tuner;
use ovolo_tune::calibrate;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A table of measurements.
#[derive(serde::Serialize)]
pub(super) struct Table {
    /// Its file.
    pub(super) file: String,
    /// What it contains, or why it is not used.
    what: String,
}

impl List {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let items = cache.items();
        let tables = tables(cache.folder().path(), registry.backends());
        let weights = cache.folder().list(Kind::Weight).len();
        let modules = cache.folder().list(Kind::Artifact).len();
        if self.json {
            let list: Vec<_> = items.iter().map(json).collect();
            let value = serde_json::json!({
                "folder": cache.folder().path(), "entries": list, "weights": weights,
                "modules": modules, "bytes": cache.bytes(), "limit": cache.limit(), "tables": tables,
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let mut text = format!("{}\n", cache.folder().path().display());
        for item in &items {
            match &item.entry {
                Ok(entry) => {
                    let _ = writeln!(
                        text,
                        "{}  {:>4} steps {:>9} of weights  {:>10}  {} ({})",
                        short(item),
                        entry.plan.steps(),
                        size(weight_bytes(entry)),
                        ago(item.used),
                        shown(&entry.model),
                        shown(&settings(entry))
                    );
                }
                Err(miss) => {
                    let _ = writeln!(text, "{}  {}", short(item), shown(&miss.to_string()));
                }
            }
        }
        let _ = writeln!(
            text,
            "{}, {}{}: {} of {}",
            count(items.len(), "entry", "entries"),
            count(weights, "weight", "weights"),
            if modules > 0 { format!(", {}", count(modules, "module", "modules")) } else { String::new() },
            size(cache.bytes()),
            size(cache.limit())
        );
        for Table { file, what } in &tables {
            let _ = writeln!(text, "{}: {}", shown(file), shown(what));
        }
        print(&text);
        Ok(())
    }
}

/// The settings that distinguish the entries of one model.
fn settings(entry: &Entry) -> String {
    let field = |name: &str| entry.key.get(name).unwrap_or_default().to_owned();
    let pipeline = field("pipeline");
    let pipeline = pipeline.split(':').next().unwrap_or_default();
    let dims = field("dims");
    let dims = if dims == "none" { String::new() } else { format!(", {dims}") };
    let threads = count(entry.plan.threads(), "thread", "threads");
    let region = entry.region.as_ref().map_or_else(String::new, |region| {
        let asked: String = region.asked.iter().map(|asked| format!("; {asked}")).collect();
        format!(", region {}{asked}", region.inputs.join(", "))
    });
    format!("{pipeline}, {}, {threads}{dims}{region}", field("cost model"))
}

/// What a plan of a region was specialised for.
pub(super) fn region(entry: &Entry) -> serde_json::Value {
    match &entry.region {
        Some(region) => serde_json::json!({ "inputs": region.inputs, "asked": region.asked }),
        None => serde_json::Value::Null,
    }
}

/// The bytes of the weights that an entry uses.
pub(super) fn weight_bytes(entry: &Entry) -> u64 {
    entry.weights().iter().map(|(_, ty)| ty.bytes() as u64).sum()
}

fn json(item: &Item) -> serde_json::Value {
    let used = item.used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match &item.entry {
        Ok(entry) => serde_json::json!({
            "entry": item.name, "bytes": item.bytes, "used": used, "model": entry.model,
            "steps": entry.plan.steps(), "weight_bytes": weight_bytes(entry),
            "key": key(entry), "region": region(entry),
        }),
        Err(miss) => {
            let damaged = matches!(miss, Miss::Damaged { .. });
            let why = miss.to_string();
            serde_json::json!({
                "entry": item.name, "bytes": item.bytes, "used": used, "damaged": damaged, "why": why,
            })
        }
    }
}

/// The key of an entry, by field.
pub(super) fn key(entry: &Entry) -> serde_json::Value {
    entry.key.fields().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Formats how long ago a time was, in the largest unit of which at least two have passed.
pub(super) fn ago(time: SystemTime) -> String {
    let seconds = time.elapsed().map_or(0, |age| age.as_secs());
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86400),
    }
}

/// Lists the tables of measurements in a folder.
pub(super) fn tables(folder: &Path, backends: &Backends) -> Vec<Table> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
        .into_iter()
        .filter_map(|file| Some(Table { what: describe(folder, &file, backends)?, file }))
        .collect()
}

fn describe(folder: &Path, file: &str, backends: &Backends) -> Option<String> {
    let threads = |before: &str, after: &str| -> Option<usize> {
        file.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
    };
    if let Some(threads) = threads("machine-", ".json") {
        let Some(known) = calibrate::known(backends, threads) else {
            return Some(
                "not used: of another machine or version, measured on a busy machine, or damaged".to_owned(),
            );
        };
        let how = known.reservation().map_or_else(String::new, |how| format!(", {how}"));
        let threads = count(threads, "thread", "threads");
        return Some(format!("{:.0} GFLOP/s with {threads}{how}", known.machine.flops / 1e9));
    }
    if let Some(threads) = threads("placement-", ".json") {
        let threads = count(threads, "thread", "threads");
        return Some(format!("the best placement that was measured for {threads}"));
    }
    if file == "libraries.txt" {
        return Some("digests of the libraries of backends".to_owned());
    }
    let threads = threads("times-", ".txt")?;
    let mut tuner = Tuner::open(Some(folder), threads, Machine::NOMINAL, backends);
    let stored = tuner.stored();
    let what = format!(
        "{}, {}",
        count(stored.table.entries.len(), "kernel", "kernels"),
        count(stored.decisions.len(), "plan", "plans")
    );
    Some(tuner.notes().into_iter().fold(what, |what, note| format!("{what}; {note}")))
}

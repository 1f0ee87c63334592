//! `ovolo cache`.

mod list;
mod show;
mod why;

use super::amount::{bytes, count, size};
use super::caching::limit;
use super::{Outcome, print};
use clap::{Args, Subcommand};
use ovolo::cache::{GRACE, Item, Kind, Listed, Miss, Pruned};
use ovolo::registry::Registry;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Subcommand)]
pub(super) enum Cache {
    /// List the entries, the last used first, and the tables stored beside them.
    List(list::List),
    /// Show an entry: its key, its plan, its weights.
    Show(show::Show),
    /// Remove the entries that were used longest ago until the cache is small enough. Weights that no entry
    /// uses are removed as well, ten minutes after their last use: until then, a running process may still
    /// add an entry that uses them.
    Prune(Prune),
    /// Remove all entries and weights.
    Clear(Clear),
    /// Read every entry, weight and module of machine code, and report what is damaged.
    Verify(Verify),
    /// Report whether a run would take its plan from the cache, or what differs from the nearest entry.
    Why(Box<why::Why>),
}

impl Cache {
    pub(super) fn run(self, registry: &Arc<Registry>) -> Outcome {
        match self {
            Self::List(command) => command.run(registry),
            Self::Show(command) => command.run(registry),
            Self::Prune(command) => command.run(registry),
            Self::Clear(command) => command.run(registry),
            Self::Verify(command) => command.run(registry),
            Self::Why(command) => command.run(registry),
        }
    }
}

/// Opens the cache, which must have a folder.
fn open(registry: &Arc<Registry>) -> Result<ovolo::cache::Cache, String> {
    let folder = ovolo::cache::home();
    let folder = folder.ok_or_else(|| "there is no folder for the cache: set OVOLO_CACHE".to_owned())?;
    if folder.exists() && !folder.is_dir() {
        return Err(format!(
            "{}: this is not a folder, so there is no cache: correct OVOLO_CACHE",
            folder.display()
        ));
    }
    Ok(ovolo::cache::Cache::new(&folder, limit()?, registry))
}

/// The name in messages of a file that is not an entry.
fn other(kind: Kind, listed: &Listed) -> String {
    let what = if kind == Kind::Artifact { "module" } else { "weight" };
    format!("{what} {}", listed.name.get(..7).unwrap_or(&listed.name))
}

/// Makes any text safe to print on one line: characters that move the cursor or change colours are escaped.
fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(one).collect()
}

/// The first digits of an entry's name.
fn short(item: &Item) -> &str {
    item.name.get(..7).unwrap_or(&item.name)
}

#[derive(Args)]
pub(super) struct Prune {
    /// The bytes that may remain, such as 500MB or 8GiB. Default: OVOLO_CACHE_LIMIT, or 8GiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    limit: Option<u64>,
}

impl Prune {
    fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let pruned = cache.prune(self.limit.unwrap_or(cache.limit()));
        print(&format!("{}; {} are left\n", removed(&pruned), size(cache.bytes())));
        if let (weights @ 1.., bytes) = pruned.young {
            print(&format!(
                "{} that no entry uses are kept for now ({}): {}\n",
                count(weights, "weight", "weights"),
                size(bytes),
                may_be_wanted()
            ));
        }
        stayed(&pruned.failed)
    }
}

/// Why weights that no entry uses are not removed at once.
fn may_be_wanted() -> String {
    let minutes = GRACE.as_secs() / 60;
    format!("they were used in the last {minutes} minutes, and a new entry may use them")
}

fn removed(pruned: &Pruned) -> String {
    let Pruned { plans, weights, artifacts, parts, bytes, .. } = pruned;
    let parts = match parts {
        0 => String::new(),
        _ => format!(" and {} of killed processes", count(*parts, "file", "files")),
    };
    let artifacts = match artifacts {
        0 => String::new(),
        _ => format!(" and {}", count(*artifacts, "module", "modules")),
    };
    format!(
        "{} and {}{artifacts}{parts} removed, {}",
        count(*plans, "plan", "plans"),
        count(*weights, "weight", "weights"),
        size(*bytes)
    )
}

/// Fails if something could not be removed.
fn stayed(failed: &[String]) -> Outcome {
    match failed {
        [] => Ok(()),
        [one] => Err(format!("a file could not be removed: {one}")),
        [first, ..] => Err(format!("{} files could not be removed; the first: {first}", failed.len())),
    }
}

#[derive(Args)]
pub(super) struct Clear {
    /// Also remove the calibration and the tables of times, which are then measured again.
    #[arg(long)]
    all: bool,
}

impl Clear {
    fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let pruned = cache.clear();
        let (mut text, mut failed) = (removed(&pruned), pruned.failed);
        if self.all {
            let tables = list::tables(cache.folder().path(), registry.backends());
            let before = failed.len();
            for table in &tables {
                let path = cache.folder().path().join(&table.file);
                if let Err(error) = std::fs::remove_file(&path) {
                    failed.push(format!("{}: {error}", path.display()));
                }
            }
            let gone = tables.len() + before - failed.len();
            text += &format!("; {} removed", count(gone, "table", "tables"));
        }
        print(&format!("{text}\n"));
        stayed(&failed)
    }
}

#[derive(Args)]
pub(super) struct Verify {
    /// Remove whatever is damaged or incomplete.
    #[arg(long)]
    remove: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Verify {
    fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let items = cache.items();
        let mut found = Checked {
            entries: items.iter().map(|item| (item, cache.verify(item))).collect(),
            others: Vec::new(),
        };
        let mut failed = if self.remove { found.remove_entries(&cache) } else { Vec::new() };
        // Weights of an entry that was removed may now be among those that no entry uses.
        let others = cache.others().into_iter().map(|(kind, listed)| {
            let found = cache.verify_other(kind, &listed.name);
            (kind, listed, found)
        });
        found.others = others.collect();
        if self.remove {
            failed.extend(found.remove_others(&cache));
        }
        print(&if self.json { format!("{}\n", found.json()) } else { found.text() });
        let [wrong, damaged] = found.damaged();
        match wrong + damaged {
            0 => Ok(()),
            _ if self.remove => stayed(&failed),
            _ => {
                let files = match damaged {
                    0 => String::new(),
                    _ => format!(" and {}", count(damaged, "file", "files")),
                };
                Err(format!(
                    "{}{files} must be made again: `--remove` removes whatever is damaged or incomplete",
                    count(wrong, "entry", "entries")
                ))
            }
        }
    }
}

/// The files of a cache, each with what is wrong with it.
struct Checked<'a> {
    entries: Vec<(&'a Item, Result<(), Miss>)>,
    /// Weights and modules.
    others: Vec<(Kind, Listed, Result<(), Miss>)>,
}

impl Checked<'_> {
    /// Returns the number of entries and of other files that are damaged.
    fn damaged(&self) -> [usize; 2] {
        let entries = self.entries.iter().filter(|(_, found)| found.is_err()).count();
        [entries, self.others.iter().filter(|(.., found)| found.is_err()).count()]
    }

    /// Removes damaged entries, and returns why some of them could not be removed.
    fn remove_entries(&self, cache: &ovolo::cache::Cache) -> Vec<String> {
        let mut failed = Vec::new();
        for (item, found) in &self.entries {
            let Err(miss) = found else { continue };
            match cache.discard(&item.name, miss) {
                Ok(()) if matches!(miss, Miss::Unreadable(_)) => {
                    failed.push(format!("entry {}: {miss}", short(item)))
                }
                Ok(()) => {}
                Err(error) => failed.push(error.to_string()),
            }
        }
        failed
    }

    /// Removes damaged weights and modules, and returns why some of them could not be removed.
    fn remove_others(&self, cache: &ovolo::cache::Cache) -> Vec<String> {
        let mut failed = Vec::new();
        for (kind, listed, found) in &self.others {
            match found {
                Ok(()) => {}
                Err(Miss::Unreadable(why)) => failed.push(format!("{} {why}", other(*kind, listed))),
                Err(_) => {
                    failed.extend(cache.folder().remove(*kind, &listed.name).err().map(|e| e.to_string()))
                }
            }
        }
        failed
    }

    fn json(&self) -> serde_json::Value {
        let why = |found: &Result<(), Miss>| found.as_ref().err().map(ToString::to_string);
        let one = |(item, found): &(&Item, Result<(), Miss>)| serde_json::json!({ "entry": item.name, "sound": found.is_ok(), "why": why(found) });
        let list: Vec<_> = self.entries.iter().map(one).collect();
        let of = |wanted: Kind| -> Vec<serde_json::Value> {
            let mine = self.others.iter().filter(|(kind, ..)| *kind == wanted);
            mine.map(|(_, listed, found)| {
                serde_json::json!({ "name": listed.name, "sound": found.is_ok(), "why": why(found) })
            })
            .collect()
        };
        let (weights, modules) = (of(Kind::Weight), of(Kind::Artifact));
        serde_json::json!({ "entries": list, "unnamed_weights": weights, "modules": modules })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let [wrong, damaged] = self.damaged();
        for (item, found) in &self.entries {
            let said = found.as_ref().map_or_else(ToString::to_string, |()| "sound".to_owned());
            let _ = writeln!(text, "{}: {said}", short(item));
        }
        for (kind, listed, found) in &self.others {
            if let Err(miss) = found {
                let _ = writeln!(text, "{}: {miss}", other(*kind, listed));
            }
        }
        let all = count(self.entries.len(), "entry", "entries");
        let _ = writeln!(text, "{all}, {} sound", self.entries.len() - wrong);
        let of = |wanted: Kind| self.others.iter().filter(|(kind, ..)| *kind == wanted).count();
        if !self.others.is_empty() {
            let weights = count(of(Kind::Weight), "weight", "weights");
            let modules = count(of(Kind::Artifact), "module", "modules");
            let sound = self.others.len() - damaged;
            let _ = writeln!(text, "{weights} that no entry uses and {modules}, {sound} sound");
        }
        if of(Kind::Weight) > 0 {
            let kept = may_be_wanted();
            let _ = writeln!(text, "`ovolo cache prune` removes weights that no entry uses, unless {kept}");
        }
        text
    }
}

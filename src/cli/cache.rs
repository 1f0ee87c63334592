//! `ovolo cache`.

mod list;
mod show;
mod why;

use super::amount::{bytes, count, size};
use super::caching::limit;
use super::{Outcome, print};
use clap::{Args, Subcommand};
use ovolo::cache::{Item, Miss, Pruned};

#[derive(Subcommand)]
pub(super) enum Cache {
    /// List the entries, the last used first, and the tables that lie beside them.
    List(list::List),
    /// Show an entry: its key, its plan, its weights.
    Show(show::Show),
    /// Remove what was used longest ago, until the cache is small enough.
    Prune(Prune),
    /// Remove all entries and weights.
    Clear(Clear),
    /// Read every bit of every entry, and say what is damaged.
    Verify(Verify),
    /// Say whether a run would take its plan from the cache, or what differs from the nearest entry.
    Why(Box<why::Why>),
}

impl Cache {
    pub(super) fn run(self) -> Outcome {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Prune(command) => command.run(),
            Self::Clear(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Why(command) => command.run(),
        }
    }
}

/// The cache, which must have a folder.
fn open() -> Result<ovolo::cache::Cache, String> {
    let folder = ovolo::calibrate::folder();
    let folder = folder.ok_or_else(|| "there is no folder for the cache: set OVOLO_CACHE".to_owned())?;
    Ok(ovolo::cache::Cache::new(&folder, limit()?))
}

/// The first digits of an entry's name.
fn short(item: &Item) -> &str {
    item.name.get(..7).unwrap_or(&item.name)
}

#[derive(Args)]
pub(super) struct Prune {
    /// Bytes that may be left, such as 500MB or 8GiB. Default: OVOLO_CACHE_LIMIT, or 8GiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    limit: Option<u64>,
}

impl Prune {
    fn run(&self) -> Outcome {
        let cache = open()?;
        let pruned = cache.prune(self.limit.unwrap_or(cache.limit()));
        print(&format!("{}; {} are left\n", removed(&pruned), size(cache.bytes())));
        stayed(&pruned.failed)
    }
}

fn removed(pruned: &Pruned) -> String {
    let Pruned { plans, weights, cubins, parts, bytes, .. } = pruned;
    let parts = match parts {
        0 => String::new(),
        _ => format!(" and {} of killed processes", count(*parts, "file", "files")),
    };
    let cubins = match cubins {
        0 => String::new(),
        _ => format!(" and {}", count(*cubins, "module", "modules")),
    };
    format!(
        "{} and {}{cubins}{parts} removed, {}",
        count(*plans, "plan", "plans"),
        count(*weights, "weight", "weights"),
        size(*bytes)
    )
}

/// That everything that should go is gone.
fn stayed(failed: &[String]) -> Outcome {
    match failed {
        [] => Ok(()),
        [one] => Err(format!("it could not be removed: {one}")),
        [first, ..] => Err(format!("{} files could not be removed; the first: {first}", failed.len())),
    }
}

#[derive(Args)]
pub(super) struct Clear {
    /// The calibration and the tables of times as well: they are measured again.
    #[arg(long)]
    all: bool,
}

impl Clear {
    fn run(&self) -> Outcome {
        let cache = open()?;
        let pruned = cache.clear();
        let (mut text, mut failed) = (removed(&pruned), pruned.failed);
        if self.all {
            let tables = list::tables(cache.folder().path());
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
    /// Remove what is damaged or not complete.
    #[arg(long)]
    remove: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Verify {
    fn run(&self) -> Outcome {
        let cache = open()?;
        let items = cache.items();
        let checked: Vec<(&Item, Result<(), Miss>)> =
            items.iter().map(|item| (item, cache.verify(item))).collect();
        let mut failed = Vec::new();
        for (item, found) in checked.iter().filter(|_| self.remove) {
            let Err(miss) = found else { continue };
            match cache.discard(&item.name, miss) {
                Ok(()) if matches!(miss, Miss::Unreadable(_)) => {
                    failed.push(format!("entry {}: {miss}", short(item)))
                }
                Ok(()) => {}
                Err(error) => failed.push(error.to_string()),
            }
        }
        let wrong = checked.iter().filter(|(_, found)| found.is_err()).count();
        if self.json {
            let one = |(item, found): &(&Item, Result<(), Miss>)| {
                let why = found.as_ref().err().map(ToString::to_string);
                serde_json::json!({ "entry": item.name, "sound": found.is_ok(), "why": why })
            };
            let list: Vec<_> = checked.iter().map(one).collect();
            print(&format!("{}\n", serde_json::json!({ "entries": list })));
        } else {
            for (item, found) in &checked {
                let said = found.as_ref().map_or_else(ToString::to_string, |()| "sound".to_owned());
                print(&format!("{}: {said}\n", short(item)));
            }
            let all = count(checked.len(), "entry", "entries");
            print(&format!("{all}, {} sound\n", checked.len() - wrong));
        }
        match wrong {
            0 => Ok(()),
            _ if self.remove => stayed(&failed),
            _ => Err(format!(
                "{} to be made again: `--remove` removes what is damaged or not complete",
                count(wrong, "entry", "entries")
            )),
        }
    }
}

//! Keeping the cache small: what was used longest ago goes first.

use super::Item;
use super::entry::Entry;
use super::folder::{Folder, Kind, Listed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::time::Duration;

/// After so long a file that was being written will never be finished.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Weights that no entry names are kept so long, as an entry may be about to name them.
const GRACE: Duration = Duration::from_secs(600);

/// The part of the limit that machine code may have.
const CUBINS: u64 = 4;

/// What was removed, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries.
    pub plans: usize,
    /// Weights.
    pub weights: usize,
    /// Machine code.
    pub cubins: usize,
    /// What processes were writing when they were killed.
    pub parts: usize,
    /// Bytes of all these.
    pub bytes: u64,
    /// What could not be removed, each with the system's reason.
    pub failed: Vec<String>,
}

impl Pruned {
    /// Removes a file and counts it; says whether it is gone.
    fn remove(&mut self, folder: &Folder, kind: Kind, listed: &Listed) -> bool {
        if let Err(error) = folder.remove(kind, &listed.name) {
            self.failed.push(error.to_string());
            return false;
        }
        *match kind {
            _ if listed.is_part() => &mut self.parts,
            Kind::Plan => &mut self.plans,
            Kind::Weight => &mut self.weights,
            Kind::Cubin => &mut self.cubins,
        } += 1;
        self.bytes += listed.bytes;
        true
    }
}

/// The entries with what they hold, the last used first.
pub(super) fn items(folder: &Folder) -> Vec<Item> {
    let mut listed = folder.list(Kind::Plan);
    listed.sort_by(|a, b| (Reverse(a.used), &a.name).cmp(&(Reverse(b.used), &b.name)));
    let item = |Listed { name, bytes, used }: Listed| {
        let entry = match folder.read(Kind::Plan, &name) {
            Ok(Some(content)) => Entry::decode(&content).map_err(|damage| damage.to_string()),
            Ok(None) => return None, // Another process has removed it.
            Err(error) => Err(error.to_string()),
        };
        let entry = entry.and_then(|entry| match entry.key.fingerprint().to_string() == name {
            true => Ok(entry),
            false => Err("its name is another's".to_owned()),
        });
        Some(Item { name, bytes, used, entry })
    };
    listed.into_iter().filter_map(item).collect()
}

/// Bytes of all that is there, what is being written at this moment included.
pub(super) fn total(folder: &Folder) -> u64 {
    Kind::ALL.iter().flat_map(|kind| folder.files(*kind)).map(|listed| listed.bytes).sum()
}

/// Removes what killed processes were writing, once it is old enough that nobody writes it any more.
fn sweep(folder: &Folder, pruned: &mut Pruned) {
    for kind in Kind::ALL {
        for listed in folder.files(kind).filter(Listed::is_part) {
            if listed.used.elapsed().is_ok_and(|age| age > ABANDONED) {
                pruned.remove(folder, kind, &listed);
            }
        }
    }
}

/// Removes what killed processes left and, if the cache is then larger than its limit, all that [`prune`]
/// removes.
pub(super) fn tidy(folder: &Folder, limit: u64) {
    sweep(folder, &mut Pruned::default());
    if total(folder) > limit {
        prune(folder, limit);
    }
}

/// Removes what is damaged, what killed processes left, weights that no entry names, and entries until
/// at most `limit` bytes are left.
pub(super) fn prune(folder: &Folder, limit: u64) -> Pruned {
    let mut pruned = Pruned::default();
    sweep(folder, &mut pruned);
    let weights = folder.list(Kind::Weight);
    let sizes: FxHashMap<&str, u64> = weights.iter().map(|one| (one.name.as_str(), one.bytes)).collect();
    let (mut wanted, mut dropped) = (FxHashSet::default(), FxHashSet::default());
    let parts = Kind::ALL.iter().flat_map(|kind| folder.files(*kind)).filter(Listed::is_part);
    let mut held: u64 = parts.map(|listed| listed.bytes).sum();
    // Machine code is small, and no entry names it: what was used longest ago goes where it is over a share.
    let mut cubins = folder.list(Kind::Cubin);
    cubins.sort_by(|a, b| (Reverse(a.used), &a.name).cmp(&(Reverse(b.used), &b.name)));
    for cubin in cubins {
        if held + cubin.bytes <= limit / CUBINS {
            held += cubin.bytes;
        } else {
            pruned.remove(folder, Kind::Cubin, &cubin);
        }
    }
    for Item { name, bytes, used, entry } in items(folder) {
        let named: Vec<String> = match &entry {
            Ok(entry) => entry.weights().iter().map(|(digest, _)| digest.to_string()).collect(),
            Err(_) => Vec::new(),
        };
        let new = named.iter().filter(|name| !wanted.contains(*name));
        let more = bytes + new.filter_map(|name| sizes.get(name.as_str())).sum::<u64>();
        if entry.is_ok() && held + more <= limit {
            held += more;
            wanted.extend(named);
        } else if pruned.remove(folder, Kind::Plan, &Listed { name, bytes, used }) {
            dropped.extend(named);
        }
    }
    for weight in &weights {
        let young = !dropped.contains(&weight.name) && weight.used.elapsed().is_ok_and(|age| age < GRACE);
        if !wanted.contains(&weight.name) && !young {
            pruned.remove(folder, Kind::Weight, weight);
        }
    }
    pruned
}

/// Removes everything, what is being written at this moment included.
pub(super) fn clear(folder: &Folder) -> Pruned {
    let mut pruned = Pruned::default();
    for kind in Kind::ALL {
        for listed in folder.files(kind) {
            pruned.remove(folder, kind, &listed);
        }
    }
    pruned
}

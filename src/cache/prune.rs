//! Keeping the cache small: what was used longest ago goes first.

use super::Item;
use super::entry::Entry;
use super::folder::{Folder, Kind, Listed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::time::Duration;

/// Weights that no entry names are kept so long, as an entry may be about to name them.
const GRACE: Duration = Duration::from_secs(600);

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries.
    pub plans: usize,
    /// Weights.
    pub weights: usize,
    /// Bytes of both.
    pub bytes: u64,
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

/// Bytes of all that is there.
pub(super) fn total(folder: &Folder) -> u64 {
    Kind::ALL.iter().flat_map(|kind| folder.list(*kind)).map(|listed| listed.bytes).sum()
}

/// Removes what is damaged, what killed processes left, weights that no entry names, and entries until
/// at most `limit` bytes are left.
pub(super) fn prune(folder: &Folder, limit: u64) -> Pruned {
    folder.sweep();
    let weights = folder.list(Kind::Weight);
    let sizes: FxHashMap<&str, u64> = weights.iter().map(|one| (one.name.as_str(), one.bytes)).collect();
    let mut pruned = Pruned::default();
    let (mut wanted, mut dropped) = (FxHashSet::default(), FxHashSet::default());
    let mut held = 0_u64;
    for Item { name, bytes, entry, .. } in items(folder) {
        let named: Vec<String> = match &entry {
            Ok(entry) => entry.weights().iter().map(|(digest, _)| digest.to_string()).collect(),
            Err(_) => Vec::new(),
        };
        let new = named.iter().filter(|name| !wanted.contains(*name));
        let more = bytes + new.filter_map(|name| sizes.get(name.as_str())).sum::<u64>();
        if entry.is_ok() && held + more <= limit {
            held += more;
            wanted.extend(named);
        } else if folder.remove(Kind::Plan, &name).is_ok() {
            dropped.extend(named);
            pruned.plans += 1;
            pruned.bytes += bytes;
        }
    }
    for Listed { name, bytes, used } in &weights {
        let young = !dropped.contains(name) && used.elapsed().is_ok_and(|age| age < GRACE);
        if !wanted.contains(name) && !young && folder.remove(Kind::Weight, name).is_ok() {
            pruned.weights += 1;
            pruned.bytes += bytes;
        }
    }
    pruned
}

/// Removes everything, what is being written at this moment included.
pub(super) fn clear(folder: &Folder) -> Pruned {
    let mut pruned = Pruned::default();
    for (kind, count) in [(Kind::Plan, &mut pruned.plans), (Kind::Weight, &mut pruned.weights)] {
        for Listed { name, bytes, .. } in folder.files(kind) {
            if folder.remove(kind, &name).is_ok() {
                *count += 1;
                pruned.bytes += bytes;
            }
        }
    }
    pruned
}

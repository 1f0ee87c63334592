//! Keeps the cache within its limit: what was used longest ago is removed first.

use super::entry::Entry;
use super::folder::{Folder, Kind, Listed};
use super::{Digest, Item, Miss};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::time::Duration;

/// How long weights that no entry names are kept, since an entry that names them may be about to be written.
pub const GRACE: Duration = Duration::from_secs(600);

/// Artifacts may take one part in this many of the limit.
const ARTIFACTS: u64 = 4;

/// What was removed, and what could not be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries.
    pub plans: usize,
    /// Weights.
    pub weights: usize,
    /// Artifacts, such as machine code.
    pub artifacts: usize,
    /// Incomplete files of processes that were killed.
    pub parts: usize,
    /// Bytes of all these.
    pub bytes: u64,
    /// The number and the bytes of weights that no entry names, but that are kept since they were used less than
    /// [`GRACE`] ago.
    pub young: (usize, u64),
    /// Files that could not be removed, each with the system's reason.
    pub failed: Vec<String>,
}

impl Pruned {
    /// Removes a file and counts it. Returns whether it was removed.
    fn remove(&mut self, folder: &Folder, kind: Kind, listed: &Listed) -> bool {
        if let Err(error) = folder.remove(kind, &listed.name) {
            self.failed.push(error.to_string());
            return false;
        }
        *match kind {
            _ if listed.is_part() => &mut self.parts,
            Kind::Plan => &mut self.plans,
            Kind::Weight => &mut self.weights,
            Kind::Artifact => &mut self.artifacts,
        } += 1;
        self.bytes += listed.bytes;
        true
    }
}

/// Returns the entries with what they hold, the most recently used first.
pub(super) fn items(folder: &Folder) -> Vec<Item> {
    let mut listed = folder.list(Kind::Plan);
    listed.sort_by(|a, b| (Reverse(a.used), &a.name).cmp(&(Reverse(b.used), &b.name)));
    let item = |Listed { name, bytes, used, .. }: Listed| {
        // An absent entry was removed by another process meanwhile.
        let entry = Entry::read(folder, &name).transpose()?;
        Some(Item { name, bytes, used, entry })
    };
    listed.into_iter().filter_map(item).collect()
}

/// Returns the weights that entries name.
pub(super) fn named(folder: &Folder) -> FxHashSet<Digest> {
    let entries = items(folder).into_iter().filter_map(|item| item.entry.ok());
    entries
        .flat_map(|entry| entry.weights().into_iter().map(|(digest, _)| digest).collect::<Vec<_>>())
        .collect()
}

/// Returns the bytes of all files, including those that are being written.
pub(super) fn total(folder: &Folder) -> u64 {
    Kind::ALL.iter().flat_map(|kind| folder.files(*kind)).map(|listed| listed.bytes).sum()
}

/// Removes incomplete files that are so old that nobody can still be writing them. Returns the bytes that are left.
fn sweep(folder: &Folder, pruned: &mut Pruned) -> u64 {
    let mut left = 0;
    for kind in Kind::ALL {
        for listed in folder.files(kind) {
            if !listed.abandoned || !pruned.remove(folder, kind, &listed) {
                left += listed.bytes;
            }
        }
    }
    for path in folder.abandoned_tables() {
        let bytes = std::fs::metadata(&path).map_or(0, |there| there.len());
        match std::fs::remove_file(&path) {
            Ok(()) => {
                pruned.parts += 1;
                pruned.bytes += bytes;
            }
            Err(error) => pruned.failed.push(format!("{}: {error}", path.display())),
        }
    }
    left
}

/// Removes incomplete files of killed processes, and calls [`prune`] only if the cache is then still larger than
/// its limit: otherwise one look at each file is enough.
pub(super) fn tidy(folder: &Folder, limit: u64) {
    if sweep(folder, &mut Pruned::default()) > limit {
        prune(folder, limit);
    }
}

/// Removes damaged entries, incomplete files of killed processes, weights that no entry names, and then entries
/// until at most `limit` bytes are left.
pub(super) fn prune(folder: &Folder, limit: u64) -> Pruned {
    let mut pruned = Pruned::default();
    sweep(folder, &mut pruned);
    let weights = folder.list(Kind::Weight);
    let sizes: FxHashMap<&str, u64> = weights.iter().map(|one| (one.name.as_str(), one.bytes)).collect();
    let (mut wanted, mut dropped) = (FxHashSet::default(), FxHashSet::default());
    let parts = Kind::ALL.iter().flat_map(|kind| folder.files(*kind)).filter(Listed::is_part);
    let mut held: u64 = parts.map(|listed| listed.bytes).sum();
    // Artifacts are small and no entry names them, so they have a share of the limit of their own. Those that were
    // used longest ago are removed if they exceed it.
    let mut artifacts = folder.list(Kind::Artifact);
    artifacts.sort_by(|a, b| (Reverse(a.used), &a.name).cmp(&(Reverse(b.used), &b.name)));
    for artifact in artifacts {
        if held + artifact.bytes <= limit / ARTIFACTS {
            held += artifact.bytes;
        } else {
            pruned.remove(folder, Kind::Artifact, &artifact);
        }
    }
    for Item { name, bytes, used, entry } in items(folder) {
        let named: Vec<String> = match &entry {
            Ok(entry) => entry.weights().iter().map(|(digest, _)| digest.to_string()).collect(),
            Err(_) => Vec::new(),
        };
        let new = named.iter().filter(|name| !wanted.contains(*name));
        let more = bytes + new.filter_map(|name| sizes.get(name.as_str())).sum::<u64>();
        // An entry that cannot be read may belong to another user and be sound, so it stays.
        let stays = matches!(entry, Ok(_) | Err(Miss::Unreadable(_)));
        if stays && held + more <= limit {
            held += more;
            wanted.extend(named);
        } else if pruned.remove(folder, Kind::Plan, &Listed { name, bytes, used, abandoned: false }) {
            dropped.extend(named);
        }
    }
    for weight in &weights {
        let young = !dropped.contains(&weight.name) && weight.used.elapsed().is_ok_and(|age| age < GRACE);
        if wanted.contains(&weight.name) {
            continue;
        }
        if young {
            pruned.young.0 += 1;
            pruned.young.1 += weight.bytes;
        } else {
            pruned.remove(folder, Kind::Weight, weight);
        }
    }
    pruned
}

/// Removes everything, including files that are being written.
pub(super) fn clear(folder: &Folder) -> Pruned {
    let mut pruned = Pruned::default();
    for kind in Kind::ALL {
        for listed in folder.files(kind) {
            pruned.remove(folder, kind, &listed);
        }
    }
    pruned
}

//! The digests of a backend's library files. These have tens of megabytes, and reading them would slow down each
//! start from the cache.
//!
//! The digest of a file's content is kept beside the entries, together with what the system reports about the file:
//! its path, length, inode number, and the times at which its content and its status last changed. Writing a file,
//! replacing it or setting its times back changes one of these, and then the content is read again. Only changes
//! that bypass the file system are missed: writes to the disk as a device, or a clock that was set back to the same
//! nanosecond. Without a folder, the content is read once in each process.

use super::{Digest, home};
use crate::file;
use rustc_hash::FxHashMap;
use std::fs::Metadata;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The file in which digests are kept.
pub(super) const TABLE: &str = "libraries.txt";

/// A file that was changed so recently may change again without getting another time, so its digest is not kept.
const FRESH: Duration = Duration::from_secs(2);

/// Returns the digest of a file's content, or a text that says why there is none.
pub(super) fn content(path: &Path, threads: usize) -> String {
    content_in(path, threads, home().as_deref())
}

pub(super) fn content_in(path: &Path, threads: usize, folder: Option<&Path>) -> String {
    static KNOWN: Mutex<Option<FxHashMap<String, Digest>>> = Mutex::new(None);
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return format!("not read: {error}"),
    };
    let name = stamp(path, &meta);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(|| folder.map(read).unwrap_or_default());
    if let Some(digest) = known.get(&name) {
        return digest.to_string();
    }
    let digest = match Digest::read_file(path, threads) {
        Ok(digest) => digest,
        Err(error) => return format!("not read: {error}"),
    };
    let settled = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FRESH));
    if settled && std::fs::metadata(path).is_ok_and(|meta| stamp(path, &meta) == name) {
        // The line of an earlier state of the file is no longer needed.
        let place = place(path);
        known.retain(|other, _| !other.ends_with(&place));
        known.insert(name, digest);
        if let Some(folder) = folder {
            keep(folder, known);
        }
    }
    digest.to_string()
}

/// Returns on one line what the system reports about a file.
fn stamp(path: &Path, meta: &Metadata) -> String {
    let modified = meta.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let mut text = format!("{} {}", meta.len(), modified.unwrap_or_default().as_nanos());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let changed = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        text = format!("{text} {changed} {}:{}", meta.dev(), meta.ino());
    }
    text + &place(path)
}

/// Returns the path of a file, with which its line ends.
fn place(path: &Path) -> String {
    format!(" {:?}", path.display().to_string())
}

/// Returns the digests that are kept. A damaged line matches no existing file, so it does no harm.
pub(super) fn read(folder: &Path) -> FxHashMap<String, Digest> {
    let text = file::read(&folder.join(TABLE)).ok().flatten();
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let line = |line: &str| {
        let (digest, name) = line.split_once(' ')?;
        let (name, sum) = name.rsplit_once(' ')?;
        let digest: Digest = digest.parse().ok()?;
        (check(&digest, name) == sum).then(|| (name.to_owned(), digest))
    };
    text.lines().filter_map(line).collect()
}

/// Keeps digests. If this fails, they are computed again next time.
fn keep(folder: &Path, known: &FxHashMap<String, Digest>) {
    let mut lines: Vec<String> =
        known.iter().map(|(name, digest)| format!("{digest} {name} {}\n", check(digest, name))).collect();
    lines.sort_unstable();
    let _ = file::update(&folder.join(TABLE), |_| lines.concat().into_bytes());
}

/// Returns the checksum at the end of a line.
fn check(digest: &Digest, name: &str) -> String {
    Digest::texts([digest.to_string().as_str(), name]).short()
}

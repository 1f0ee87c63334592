//! One entry with its weights in one file, for use on another machine.
//!
//! The file holds the length of the entry, the entry as the cache keeps it, and then its weights in the order of
//! their digests. The entry's own checksum and the digests protect all of these bytes.

use super::entry::Entry;
use super::folder::Kind;
use super::{Cache, Digest, Key, Origin, prune, weights};
use crate::error::{CacheError, Error};
use crate::file;
use crate::graph::NodeId;
use crate::plan::Plan;
use crate::tensor::Tensor;
use memmap2::Mmap;
use std::path::Path;

const MAGIC: &[u8; 16] = b"ovolo file, v1\n\0";

impl Cache {
    /// Writes the entry of a key, with its weights, to a file.
    ///
    /// # Errors
    /// If the entry is absent or damaged, or the file cannot be written.
    pub fn save(&self, key: &Key, file: &Path) -> Result<(), Error> {
        let name = key.fingerprint().to_string();
        let entry_error = |why: String| CacheError::Entry { why };
        let read = |error| Error::io(self.folder.path())(error);
        let bytes = self.folder.read(Kind::Plan, &name).map_err(read)?;
        let bytes = bytes.ok_or(CacheError::Absent)?;
        let entry = Entry::decode(&bytes).map_err(|damage| entry_error(damage.to_string()))?;
        weights::read(&self.folder, &entry.constants, entry.plan.threads(), None)
            .map_err(|miss| entry_error(miss.to_string()))?;
        let mut maps: Vec<Mmap> = Vec::new();
        for (digest, _) in entry.weights() {
            let map = self.folder.map(Kind::Weight, &digest.to_string()).map_err(read)?;
            maps.push(map.ok_or_else(|| CacheError::Weight { digest: digest.short().to_string() })?);
        }
        write(file, &bytes, maps.iter().map(|map| &map[..]))
    }

    /// Writes a plan and the constants that it reads to a file in the format of [`Cache::save`], without using a
    /// cache.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save_plan(
        key: &Key,
        plan: &Plan,
        constants: &[(NodeId, &Tensor)],
        origin: Origin,
        file: &Path,
    ) -> Result<(), Error> {
        let (encoded, weights) = super::encode(key, plan, constants, origin, None)?;
        write(file, &encoded, weights.into_values())
    }

    /// Reads an entry from a file and keeps it with its weights. `unfit` returns why the entry cannot be used on
    /// this machine, or `None` if it can.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or cannot be used here; if the cache cannot be written to, or its
    /// limit does not allow the entry.
    pub fn load(&self, file: &Path, unfit: &dyn Fn(&Entry) -> Option<String>) -> Result<Entry, Error> {
        let damaged =
            |why: &str| Error::from(CacheError::File { file: file.to_owned(), why: why.to_owned() });
        let map = crate::onnx::weight::map(file).map_err(Error::io(file))?;
        let bytes: &[u8] = map.as_ref().map_or(&[], |map| map);
        let rest =
            bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it was not written by `ovolo save-cache`"))?;
        let short = || damaged("it is cut short");
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
        let (encoded, mut rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let entry = Entry::decode(encoded).map_err(|damage| damaged(&damage.to_string()))?;
        let mut parts = Vec::new();
        for (digest, ty) in entry.weights() {
            let (weight, more) = rest.split_at_checked(ty.bytes()).ok_or_else(short)?;
            parts.push((digest, weight));
            rest = more;
        }
        if !rest.is_empty() {
            return Err(damaged("there are bytes after its end"));
        }
        let contents: Vec<&[u8]> = parts.iter().map(|(_, weight)| *weight).collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let found = Digest::all(&contents, threads);
        if let Some(((digest, _), _)) = parts.iter().zip(&found).find(|((digest, _), found)| digest != *found)
        {
            return Err(damaged(&format!("the checksum of weight {} is wrong", digest.short())));
        }
        self.allows(encoded.len() + contents.iter().map(|bytes| bytes.len()).sum::<usize>())?;
        if let Some(why) = unfit(&entry) {
            return Err(damaged(&why));
        }
        weights::write_entry(&self.folder, &entry.key.fingerprint().to_string(), encoded, parts, (None, 1))?;
        prune::tidy(&self.folder, self.limit);
        Ok(entry)
    }
}

/// Writes the bytes of an entry, and those of its weights in the order of their digests.
fn write<'a>(file: &Path, entry: &[u8], weights: impl Iterator<Item = &'a [u8]>) -> Result<(), Error> {
    let length = (entry.len() as u64).to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![MAGIC, &length, entry];
    weights.for_each(|bytes| parts.push(bytes));
    file::write(file, &parts).map_err(Error::io(file))
}

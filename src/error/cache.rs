//! Errors of the cache.

use std::path::PathBuf;

/// Why an entry of the cache cannot be written, saved or loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The key has no entry.
    #[error("there is no entry to save")]
    Absent,
    /// The entry cannot be encoded, is damaged, or is incomplete.
    #[error("{why}")]
    Entry {
        /// What is wrong.
        why: String,
    },
    /// A weight of the entry was removed meanwhile.
    #[error("weight {digest} is gone")]
    Weight {
        /// The beginning of its digest.
        digest: String,
    },
    /// A file with an entry is damaged, or cannot be used on this machine.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An entry is larger than the limit of the cache.
    #[error("it takes {bytes} bytes, and the cache is limited to {limit} bytes")]
    Limit {
        /// Bytes of the entry.
        bytes: usize,
        /// The limit, in bytes.
        limit: u64,
    },
}

//! Where this process keeps what it has compiled and measured, unless a folder is named.

use std::path::PathBuf;
use std::sync::OnceLock;

static HOME: OnceLock<PathBuf> = OnceLock::new();

/// Names the folder of the cache, and of what was measured on this machine, for this process. The first one counts.
pub fn keep_in(folder: PathBuf) {
    let _ = HOME.set(folder);
}

/// The folder that [`keep_in`] named. Where none is, nothing is kept that no folder is named for.
pub fn home() -> Option<PathBuf> {
    HOME.get().cloned()
}

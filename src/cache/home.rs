//! The default folder in which this process keeps what it has compiled and measured.

use std::path::PathBuf;
use std::sync::OnceLock;

static HOME: OnceLock<PathBuf> = OnceLock::new();

/// Sets the folder of the cache, and of what was measured on this machine, for this process. Only the first call
/// has an effect.
pub fn keep_in(folder: PathBuf) {
    let _ = HOME.set(folder);
}

/// Returns the folder that was given to [`keep_in`]. If it is `None`, nothing is kept unless the caller names a
/// folder.
pub fn home() -> Option<PathBuf> {
    HOME.get().cloned()
}

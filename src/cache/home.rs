//! Where the cache is unless a folder is named.

use std::path::PathBuf;

/// The folder of the cache, and of what was measured on this machine: `OVOLO_CACHE`, or `ovolo` among the user's
/// caches. `None` where the environment names neither.
pub fn home() -> Option<PathBuf> {
    // Empty is unset, as the XDG specification has it: else it would be the current folder.
    let named = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    Some(match named("OVOLO_CACHE") {
        Some(folder) => folder,
        None => match named("XDG_CACHE_HOME") {
            Some(folder) => folder.join("ovolo"),
            None => named("HOME")?.join(".cache").join("ovolo"),
        },
    })
}

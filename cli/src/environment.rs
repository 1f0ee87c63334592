//! What the environment says, which the library is told: the folder of the cache, and the instruction set.

use ovolo::cache;
use ovolo::registry::Registry;
use std::path::PathBuf;

/// The variable that names the instruction set for which plans are made.
pub(super) const ISA: &str = "OVOLO_ISA";

/// Tells the library. The folder is `OVOLO_CACHE`, or `ovolo` among the user's caches.
///
/// # Errors
/// An instruction set that no backend has.
pub(super) fn tell(registry: &Registry) -> Result<(), String> {
    if let Some(folder) = folder() {
        cache::keep_in(folder);
    }
    let Some(name) = std::env::var_os(ISA) else { return Ok(()) };
    registry.backends().plan_for(&name.to_string_lossy()).map_err(|why| format!("{ISA}: {why}"))
}

/// Where the cache is; nothing where the environment does not say where the user's caches are.
fn folder() -> Option<PathBuf> {
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

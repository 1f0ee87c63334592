//! What ovolo has: ops, backends, pipelines.

use ovolo::registry::Registry;
use std::sync::{Arc, OnceLock};

/// Returns the registry that all sessions share.
pub fn registry() -> Arc<Registry> {
    static SHARED: OnceLock<Arc<Registry>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(ovolo_standard::registry())))
}

//! The ops of the backend, for unit tests.

use ovolo::op::Ops;
use ovolo::registry::Registry;
use std::sync::LazyLock;

/// Returns the ops of a registry with this backend.
pub(crate) fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        let mut registry = Registry::new();
        crate::register(&mut registry).unwrap();
        registry.ops().clone()
    });
    &OPS
}

//! The native backend's ops. Speeds are measured with its kernels and results are compared with them,
//! whatever backends a compilation has.

use ovolo::op::Ops;
use ovolo::registry::Registry;
use std::sync::LazyLock;

/// The native backend's ops.
pub(crate) fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).expect("an empty registry accepts one backend");
        registry.ops().clone()
    });
    &OPS
}

//! The ops of the backend, for tests.

use ovolo::op::Ops;
use ovolo::registry::Registry;
use ovolo_native::Isa;
use std::sync::LazyLock;

/// Returns the ops of a registry with this backend.
pub(crate) fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        if let Some(name) = std::env::var_os("OVOLO_ISA") {
            let isa: Isa = name.to_str().unwrap().parse().unwrap();
            isa.plan_for().unwrap();
        }
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).unwrap();
        registry.ops().clone()
    });
    &OPS
}

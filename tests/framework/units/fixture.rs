//! What these tests share: ovolo's own ops, and one of a device.

use ovolo::backend::Backend;
use ovolo::op::{Call, Lowering, OpError, Ops};
use ovolo::registry::Registry;
use ovolo::tensor::Family;
use std::sync::{Arc, LazyLock};

/// Devices that no machine has.
pub const FAMILY: Family = Family::new("gpu");

struct Gpu;

// SAFETY: no kernel can be made.
unsafe impl Backend for Gpu {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn ops(&self) -> Vec<Lowering> {
        let contract = |_: &Call<'_>| Err(OpError::kernel("there is no such device"));
        let kernel = |_: &Call<'_>| Err(OpError::kernel("there is no such device"));
        let relu = Lowering::new("gpu.relu", "relu", contract, kernel);
        vec![Lowering { device: Some(FAMILY), ..relu }]
    }
}

/// The ops.
pub fn ops() -> &'static Ops {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut registry = Registry::new();
        registry.add_backend(Arc::new(Gpu)).unwrap();
        registry
    });
    REGISTRY.ops()
}

//! What unit tests share: ovolo's own ops, and one of a device.

use crate::op::{Call, Lowering, OpError, Ops};
use crate::tensor::Family;
use std::sync::LazyLock;

/// Devices that no backend has.
pub(crate) const FAMILY: Family = Family::new("gpu");

/// The ops.
pub(crate) fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        let mut ops = Ops::new();
        let contract = |_: &Call<'_>| Err(OpError::kernel("there is no such device"));
        let kernel = |_: &Call<'_>| Err(OpError::kernel("there is no such device"));
        let relu = Lowering::new("gpu.relu", "relu", contract, kernel);
        ops.lower(&Lowering { device: Some(FAMILY), ..relu }).unwrap();
        ops
    });
    &OPS
}

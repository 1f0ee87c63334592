//! What unit tests share: ovolo's own ops, and one of a device.

use crate::op::{Call, Lowering, Ops};
use crate::tensor::Family;
use std::sync::LazyLock;

/// Devices that no backend has.
pub(crate) const FAMILY: Family = Family::new("gpu");

/// The ops.
pub(crate) fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        let mut ops = Ops::new();
        let (contract, kernel) = (|_: &Call<'_>| Err(String::new()), |_: &Call<'_>| Err(String::new()));
        let relu = Lowering::new("gpu.relu", "relu", contract, kernel);
        ops.lower(&Lowering { device: Some(FAMILY), ..relu }).unwrap();
        ops
    });
    &OPS
}

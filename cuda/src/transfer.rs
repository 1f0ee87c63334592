//! Copies between the host and a device.

use super::device::FAMILY;
use ovolo::attr::Attrs;
use ovolo::op::{Arity, Flags, Infer, OpDef, OpError};
use ovolo::tensor::{Device, TensorType};

/// Returns the logical ops `upload` and `download`.
pub(super) fn ops() -> [OpDef; 2] {
    let def = |name, doc, infer: Infer| OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags { injective: true, transfer: Some(FAMILY), ..Flags::default() },
        infer,
        eval: |_, operands, ty| operands[0].on(ty.device),
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    };
    [
        def("upload", "copies from the host to the first device", infer_upload),
        def("download", "copies from a device to the host", infer_download),
    ]
}

/// Returns whether an op is a copy to or from the device.
pub(super) fn copies(op: &str) -> bool {
    matches!(op, "cuda.upload" | "cuda.download")
}

fn infer_upload(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types[0].device {
        Device::Host => Ok(TensorType { device: Device::Accelerator(FAMILY, 0), ..types[0].clone() }),
        Device::Accelerator(..) => Err(OpError::operand(0, types[0], ", which is already on a device")),
    }
}

fn infer_download(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types[0].device {
        Device::Accelerator(FAMILY, _) => Ok(TensorType { device: Device::Host, ..types[0].clone() }),
        Device::Accelerator(..) => {
            Err(OpError::operand(0, types[0], ", which is on a device of another family"))
        }
        Device::Host => Err(OpError::operand(0, types[0], ", which is already on the host")),
    }
}

//! Operands for kernels that are checked or timed: seeded values that the kernels accept.

use ovolo::egraph::KernelCall;
use ovolo::graph::text::random;
use ovolo::op::Contract;
use ovolo::tensor::{DType, Device, Tensor, TensorType};

/// Returns the bound of integer operands of a call. They are mostly indices, so they stay below every size that they
/// may index.
pub(super) fn bound(call: &KernelCall) -> usize {
    call.inputs.first().map_or(1, |ty| ty.shape.iter().copied().min().unwrap_or(1)).max(1)
}

/// Returns seeded values of a type; integers are below a bound.
pub(super) fn operand(ty: &TensorType, seed: usize, below: usize) -> Tensor {
    let value = random(ty, seed as u64);
    match (ty.dtype.is_float() || ty.dtype == DType::Bool, value.to_i64()) {
        #[allow(clippy::cast_precision_loss)]
        (false, Some(values)) => {
            let values: Vec<f64> =
                values.iter().map(|value| (value.unsigned_abs() as usize % below) as f64).collect();
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        }
        _ => value,
    }
}

/// Whether a kernel runs on a device: then it has its own scratch memory, and copies its operands there.
pub(super) fn is_on_device(call: &KernelCall) -> bool {
    call.inputs.iter().chain([&call.output]).any(|ty| ty.device != Device::Host)
}

/// Returns the bytes of the device that a loaded kernel takes: its operands, its result, its scratch memory, and as
/// much again as its constants are copied to be read from memory. Zero for a kernel of the host.
pub(super) fn device_bytes(call: &KernelCall, contract: &Contract, constants: usize) -> usize {
    if !is_on_device(call) {
        return 0;
    }
    let copied = if call.constant.contains(&true) { constants.min(COPIED) } else { 0 };
    operand_bytes(call) + contract.scratch + copied
}

/// Returns the bytes of the operands and the result.
pub(super) fn operand_bytes(call: &KernelCall) -> usize {
    call.inputs.iter().chain([&call.output]).map(TensorType::bytes).sum()
}

/// The most bytes of copies of a kernel's constants: about twice the cache of a large device.
const COPIED: usize = 128 << 20;

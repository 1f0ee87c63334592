//! Copies between the host and a device, and ops of a device's kernels: the same values in another memory.

use super::{Arity, Flags, Infer, OpDef};
use crate::attr::Attrs;
use crate::tensor::{Device, Layout, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let def = |name, doc, infer: Infer| OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags { injective: true, ..Flags::default() },
        infer,
        eval: |_, operands, ty| operands[0].on(ty.device),
        flops: |_, _, _| 0.0,
        logical: None,
    };
    vec![
        def("upload", "from the host to the first device", infer_upload),
        def("download", "from a device to the host", infer_download),
    ]
}

fn infer_upload(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    match types[0].device {
        Device::Host => Ok(TensorType { device: Device::Cuda(0), ..types[0].clone() }),
        Device::Cuda(_) => Err(format!("operand 0 is {}, on a device already", types[0])),
    }
}

fn infer_download(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    match types[0].device {
        Device::Cuda(_) => Ok(TensorType { device: Device::Host, ..types[0].clone() }),
        Device::Host => Err(format!("operand 0 is {}, on the host already", types[0])),
    }
}

/// Backends whose kernels run on a device.
const BACKENDS: &[&str] = &["cuda", "cublaslt", "cudnn"];

/// Whether an op is of a backend whose kernels run on a device.
pub(super) fn runs_there(def: &OpDef) -> bool {
    def.backend().is_some_and(|backend| BACKENDS.contains(&backend))
}

/// Where an op's operands lie, and its result.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Host,
    Device,
    /// It copies from one to the other, and says itself what it takes.
    Copies,
}

fn memory(def: &OpDef) -> Memory {
    match def.meaning() {
        "upload" | "download" => Memory::Copies,
        _ if runs_there(def) => Memory::Device,
        _ => Memory::Host,
    }
}

/// The type of an op's result, all operands where the op takes them.
pub(super) fn infer(def: &OpDef, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let memory = memory(def);
    if memory == Memory::Copies {
        return (def.infer)(attrs, types);
    }
    let device = match types.first() {
        Some(first) if memory == Memory::Device => first.device,
        _ => Device::Host,
    };
    let (there, name) = match memory {
        Memory::Device => (device != Device::Host, "on the device of operand 0"),
        _ => (true, "on the host"),
    };
    if let Some(operand) = types.iter().position(|ty| !there || ty.device != device) {
        return Err(format!("operand {operand} is {}, not {name}", types[operand]));
    }
    if memory == Memory::Host {
        return (def.infer)(attrs, types);
    }
    let host: Vec<TensorType> =
        types.iter().map(|ty| TensorType { device: Device::Host, ..(*ty).clone() }).collect();
    let result = (def.infer)(attrs, &host.iter().collect::<Vec<_>>())?;
    Ok(TensorType { device, ..result })
}

/// Evaluates an op. A lowered one is evaluated on the host in the default layout, wherever its operands lie.
pub(super) fn eval(def: &OpDef, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    if def.logical.is_none() || memory(def) == Memory::Copies {
        return (def.eval)(attrs, operands, ty);
    }
    let plain = |operand: &&Tensor| operand.on(Device::Host).to_layout(&Layout::PLAIN);
    let operands: Vec<Tensor> = operands.iter().map(plain).collect();
    let result = TensorType { device: Device::Host, ..ty.with_layout(Layout::PLAIN) };
    let result = (def.eval)(attrs, &operands.iter().collect::<Vec<_>>(), &result);
    result.to_layout(&ty.layout).on(ty.device)
}

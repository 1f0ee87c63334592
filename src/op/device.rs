//! The memories of operands and results: the lowered ops of a device compute the same values in another memory.

use super::{OpDef, OpError};
use crate::attr::Attrs;
use crate::tensor::{Device, Layout, Tensor, TensorType};

/// The memory in which an op's operands and its result lie.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Host,
    Device,
    /// The op copies from one memory to the other, and its own inference checks where the operand lies.
    Copies,
}

fn memory(def: &OpDef) -> Memory {
    match def.device() {
        _ if def.flags.transfer.is_some() => Memory::Copies,
        Some(_) => Memory::Device,
        None => Memory::Host,
    }
}

/// Refuses operands in sparse layouts where an op takes none, and those that no value can have.
fn sparse(def: &OpDef, types: &[&TensorType]) -> Result<(), OpError> {
    for (at, ty) in types.iter().enumerate().filter(|(_, ty)| ty.layout.stored().is_some()) {
        if !def.takes_sparse() {
            return Err(OpError::operand(at, ty, ", in a sparse layout: `unpack` makes it dense"));
        }
        if let Some(error) = crate::tensor::type_error(ty) {
            return Err(OpError::operands(error));
        }
    }
    Ok(())
}

/// Infers the type of an op's result, after a check that all operands lie in the memory where the op takes them.
pub(super) fn infer(def: &OpDef, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    sparse(def, types)?;
    let memory = memory(def);
    if memory == Memory::Copies {
        return host(def, attrs, types);
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
        return Err(OpError::operand(operand, types[operand], format!(", not {name}")));
    }
    if memory == Memory::Host {
        return host(def, attrs, types);
    }
    let moved: Vec<TensorType> =
        types.iter().map(|ty| TensorType { device: Device::Host, ..(*ty).clone() }).collect();
    let result = host(def, attrs, &moved.iter().collect::<Vec<_>>())?;
    Ok(TensorType { device, ..result })
}

/// Infers the type of the result of operands on the host.
fn host(def: &OpDef, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match &def.lowered {
        Some(lowered) => lowered.result(def.arity, attrs, types),
        None => (def.infer)(attrs, types),
    }
}

/// Evaluates an op. A lowered op is evaluated on the host in the default layout, wherever its operands lie.
pub(super) fn eval(def: &OpDef, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let lowered = match &def.lowered {
        Some(lowered) if memory(def) != Memory::Copies => lowered,
        _ => return def.reference(attrs, operands, ty),
    };
    let plain = |operand: &&Tensor| operand.on(Device::Host).to_layout(&Layout::PLAIN);
    let operands: Vec<Tensor> = operands.iter().map(plain).collect();
    let result = TensorType { device: Device::Host, ..ty.with_layout(Layout::PLAIN) };
    let result = lowered.evaluate(attrs, &operands.iter().collect::<Vec<_>>(), &result);
    result.to_layout(&ty.layout).on(ty.device)
}

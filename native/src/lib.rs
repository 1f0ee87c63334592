//! The native backend: kernels for every op in pure Rust.
//!
//! Each family of ops is a module with a list of declarations, which name the contract and the kernel of each lowered
//! op. If no fast kernel supports a call (a rare element type, an unusual layout), the op's reference evaluation runs
//! it, and the contract names the implementation `reference`. Calls on `bf16` and `f16` without a kernel of their own
//! run the `f32` kernel between conversions, if there is one.

mod binary;
mod cast;
mod col2im;
mod concat;
mod convert;
mod elements;
mod embed;
mod forest;
mod fourier;
mod gather;
mod levels;
mod map;
mod normalize;
mod pool;
mod rearrange;
mod reduce;
mod reference_only;
mod resize;
mod running;
mod sample;
mod scalar;
mod scatter;
mod select;
mod slice;
mod softmax;
mod squeeze;
mod suppress;
mod top;
mod transposed;
mod unary;
mod widen;

pub use ovolo_vector::isa::{Isa, PlannedIsa, UnknownIsa};

use ovolo::backend::features::InstructionSets;
use ovolo::backend::{Backend, Contract, Probes};
use ovolo::op::{Fallback, Form, Layouts, Lowering, Op, OpDef, OpError};
use ovolo::registry::{Registry, RegistryError};
use ovolo::scalar::Function;
use ovolo_vector::isa::{ISAS, Isas};
use ovolo_vector::{args, block, broadcast, chain, lanes, math, padding, plain_contract, reference, strided};
use std::sync::Arc;

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// The backend `native`.
pub struct Native;

/// Returns the logical ops that make operands of these kernels alone. A registry needs them before the backend.
pub fn logical_ops() -> Vec<OpDef> {
    ovolo_linear::logical_ops()
}

/// Adds the backend and its ops to a registry.
///
/// # Errors
/// If the registry already has a backend of this name, or lacks a logical op that one of these ops lowers.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add_build("ovolo-fourier", ovolo_fourier::BUILD);
    registry.add_build("ovolo-vector", ovolo_vector::BUILD);
    registry.add_build("ovolo-linear", ovolo_linear::BUILD);
    registry.add_build("ovolo-native", BUILD);
    for op in logical_ops() {
        registry.add_op(op)?;
    }
    registry.add_backend(Arc::new(Native))
}

/// The families besides those of `ovolo-linear`, each a list of ops. A new family is a file and a line here; a new op of a
/// family is a line in its list.
const FAMILIES: &[&[Lowering]] = &[
    convert::OPS,
    rearrange::OPS,
    slice::OPS,
    concat::OPS,
    forest::OPS,
    gather::OPS,
    scatter::OPS,
    cast::OPS,
    unary::OPS,
    map::OPS,
    softmax::OPS,
    normalize::OPS,
    levels::OPS,
    embed::OPS,
    reduce::OPS,
    select::OPS,
    pool::OPS,
    squeeze::OPS,
    resize::OPS,
    transposed::OPS,
    top::OPS,
    running::OPS,
    fourier::OPS,
    sample::OPS,
    col2im::OPS,
    suppress::OPS,
    reference_only::OPS,
];

/// The fallback for calls on narrow types without a kernel of their own: the `f32` kernel between conversions.
const FALLBACK: Fallback = Fallback {
    contract: |call, own| {
        let contract = own(call)?;
        if contract.implementation != reference::NAME {
            return Ok(contract);
        }
        Ok(widen::contract(call, own).unwrap_or(contract))
    },
    kernel: |call, own| {
        let (planned, host) = (Isa::planned(), Isa::host());
        if planned > host {
            return Err(OpError::kernel(format!(
                "plans are made for {planned}, but this processor has only {host}: they can be inspected but not run here"
            )));
        }
        if call.contract()?.implementation.starts_with(widen::NAME) {
            return widen::kernel(call, own).unwrap_or_else(|| own(call));
        }
        own(call)
    },
};

/// The layouts of images for kernels that vectorise over channels if these are innermost, and over pixels otherwise.
const IMAGES: Layouts =
    Layouts::Forms(&[Form::same("plain"), Form::same("nChw16c"), Form::same("nChw8c"), Form::same("nhwc")]);

// SAFETY: the contract and the kernel of a call are derived from the same analysis of it, and kernels access only
// their buffers.
unsafe impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let all = ovolo_linear::FAMILIES.iter().chain(FAMILIES).copied().flatten();
        all.map(|one| Lowering { fallback: Some(&FALLBACK), ..*one }).collect()
    }

    fn instruction_sets(&self) -> Option<&dyn InstructionSets> {
        Some(&Isas)
    }

    /// The packed product has no conversion in it, so it is the fastest.
    fn probes(&self) -> Option<Probes> {
        Some(Probes { product: "native.matmul-packed", layouts: ["plain", "Ba32b"], copy: "native.abs" })
    }

    /// The tests compare every op that has the name of its logical op with the reference.
    fn is_trusted(&self, op: Op) -> bool {
        op.name.strip_prefix("native.") == Some(op.logical().name)
    }

    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        let lowering = match function.operands() {
            1 => unary::function(name, function),
            _ => binary::function(name, function),
        };
        Some(Lowering { fallback: Some(&FALLBACK), ..lowering })
    }
}

/// Returns the contract of a view: the result is the bytes of operand 0 from `offset` on.
fn view_contract(offset: usize) -> Contract {
    Contract { view_of: Some(0), view_offset: offset, ..plain_contract("view") }
}

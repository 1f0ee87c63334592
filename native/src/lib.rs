//! The native backend: every op in pure Rust.
//!
//! Each family is a module with a list of ops: declarations of lowered ops, which name contract and kernel.
//! A call that no fast kernel takes (a rare element type, an odd layout) is given to the op's
//! reference evaluation, and its contract says so: the implementation is then `reference`. Calls on
//! `bf16` and `f16` take the `f32` kernel between conversions instead, where there is one.

mod ahead;
mod args;
mod attention;
mod binary;
mod broadcast;
mod cast;
mod chain;
#[cfg(test)]
#[path = "../../tests/common/kernel.rs"]
mod check;
mod concat;
mod conv;
mod convert;
#[cfg(test)]
mod fixture;
mod gather;
mod gemm;
mod lanes;
mod map;
mod math;
mod matmul;
mod normalize;
mod padding;
mod pool;
mod product;
mod rearrange;
mod reduce;
mod reference;
mod resize;
mod scalar;
mod select;
mod slice;
mod softmax;
mod squeeze;
mod strassen;
mod strided;
#[cfg(test)]
mod test;
mod tile;
mod transposed;
mod unary;
mod widen;

use ovolo::backend::features::Isa;
use ovolo::backend::{Backend, Contract};
use ovolo::op::{Fallback, Form, Layouts, Lowering, OpError};
use ovolo::registry::{Registry, RegistryError};
use std::sync::Arc;

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// The native backend.
pub struct Native;

/// Adds the backend and its ops to a registry.
///
/// # Errors
/// If the registry has another backend of the name, or lacks an op that one of its ops lowers.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add_build("ovolo-native", BUILD);
    registry.add_backend(Arc::new(Native))
}

/// The families, each a list of ops. A new one is a file and a line here; a new op of a family a line there.
const FAMILIES: &[&[Lowering]] = &[
    convert::OPS,
    rearrange::OPS,
    slice::OPS,
    concat::OPS,
    gather::OPS,
    cast::OPS,
    unary::OPS,
    binary::OPS,
    map::OPS,
    matmul::OPS,
    softmax::OPS,
    normalize::OPS,
    reduce::OPS,
    attention::OPS,
    select::OPS,
    conv::OPS,
    pool::OPS,
    squeeze::OPS,
    resize::OPS,
    transposed::OPS,
];

/// Kernels for `f32` between conversions, for calls on narrower types that have no kernel of their own.
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
                "plans are made for {planned}, and this processor has {host}: they can be looked at and not run here"
            )));
        }
        if call.contract()?.implementation.starts_with(widen::NAME) {
            return widen::kernel(call, own).unwrap_or_else(|| own(call));
        }
        own(call)
    },
};

/// Instruction sets that vectors have code for.
const ISAS: &[&str] = &[Isa::Avx2.name(), Isa::Avx512.name()];

/// Layouts of images for kernels that go over channels where these are innermost, and over pixels elsewhere.
const IMAGES: Layouts =
    Layouts::Forms(&[Form::same("plain"), Form::same("nChw16c"), Form::same("nChw8c"), Form::same("nhwc")]);

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let all = FAMILIES.iter().copied().flatten();
        all.map(|one| Lowering { fallback: Some(&FALLBACK), ..*one }).collect()
    }
}

/// A contract that names its implementation and asks for nothing.
fn plain_contract(implementation: &str) -> Contract {
    Contract { implementation: implementation.to_owned(), ..Contract::default() }
}

/// A contract for a result that is operand 0's bytes from `offset` on.
fn view_contract(offset: usize) -> Contract {
    Contract { view_of: Some(0), view_offset: offset, ..plain_contract("view") }
}

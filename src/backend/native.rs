//! The native backend: every op in pure Rust.
//!
//! Each family is a module with a list of entries: the lowered op, its contract and its kernel.
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
mod concat;
mod conv;
mod convert;
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

#[cfg(test)]
use super::check;
use super::features::{self, Isa};
use super::{Backend, Call, Contract, Kernel};

/// The native backend.
pub struct Native;

/// One lowered op of the backend.
pub(crate) struct Entry {
    /// The lowered op's name.
    pub op: &'static str,
    /// The contract for a call.
    pub contract: fn(&Call<'_>) -> Result<Contract, String>,
    /// The kernel for a call.
    pub kernel: fn(&Call<'_>) -> Result<Box<dyn Kernel>, String>,
}

/// The families, each a list of entries.
const FAMILIES: &[&[Entry]] = &[
    convert::ENTRIES,
    rearrange::ENTRIES,
    slice::ENTRIES,
    concat::ENTRIES,
    gather::ENTRIES,
    cast::ENTRIES,
    unary::ENTRIES,
    binary::ENTRIES,
    map::ENTRIES,
    matmul::ENTRIES,
    softmax::ENTRIES,
    normalize::ENTRIES,
    reduce::ENTRIES,
    attention::ENTRIES,
    select::ENTRIES,
    conv::ENTRIES,
    pool::ENTRIES,
    squeeze::ENTRIES,
    resize::ENTRIES,
    transposed::ENTRIES,
];

fn entry(op: &str) -> Option<&'static Entry> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|entry| entry.op == op)
}

/// The contract of the op's own family.
fn own_contract(call: &Call<'_>) -> Result<Contract, String> {
    match entry(call.op.name) {
        Some(entry) => (entry.contract)(call),
        None => reference::contract(call),
    }
}

/// The kernel of the op's own family.
fn own_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
    match entry(call.op.name) {
        Some(entry) => (entry.kernel)(call),
        None => reference::kernel(call),
    }
}

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        let contract = own_contract(call)?;
        if contract.implementation != reference::NAME {
            return Ok(contract);
        }
        Ok(widen::contract(call, own_contract).unwrap_or(contract))
    }

    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        let (planned, host) = (Isa::planned(), Isa::host());
        if planned > host {
            return Err(format!(
                "{} has plans made for {planned}, and this processor has {host}: unset it to run here",
                features::ISA
            ));
        }
        if self.contract(call)?.implementation.starts_with(widen::NAME) {
            return widen::kernel(call, own_kernel).unwrap_or_else(|| own_kernel(call));
        }
        own_kernel(call)
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

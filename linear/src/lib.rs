//! Native kernels of linear algebra: products, convolutions, attention and recurrent layers, on `f32` and on 8-bit
//! integers. They are part of the backend `native`.
//!
//! They are a crate of their own because they take as long to compile as all other native kernels together.

mod attention;
mod conv;
mod deform;
mod few;
mod gemm;
mod integer;
mod matmul;
mod product;
mod recurrent;
mod sparse;
mod strassen;

pub use integer::rows;

use ovolo::op::{Lowering, OpDef};
use ovolo_vector::isa::ISAS;
use ovolo_vector::{
    args, block, broadcast, chain, lanes, math, padding, plain_contract, prefetch, reference, tile,
};

/// The families, each a list of ops. A new family is a file and a line here; a new op of a family is a line in its
/// list.
pub const FAMILIES: &[&[Lowering]] =
    &[matmul::OPS, integer::OPS, recurrent::OPS, attention::OPS, conv::OPS, deform::OPS];

/// Returns the logical ops that make operands of these families alone.
pub fn logical_ops() -> Vec<OpDef> {
    vec![integer::definition()]
}

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

//! Native kernels of linear algebra: products, convolutions, attention and recurrent layers, on `f32` and on 8-bit
//! integers. They are part of the backend `native`, which lists their ops.
//!
//! They are a crate of their own because they take as long to compile as all other native kernels together.

pub mod attention;
pub mod conv;
pub mod deform;
mod gemm;
pub mod integer;
pub mod matmul;
mod product;
pub mod recurrent;
mod strassen;

use ovolo_vector::isa::ISAS;
use ovolo_vector::{
    args, block, broadcast, chain, lanes, math, padding, plain_contract, prefetch, reference, tile,
};

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

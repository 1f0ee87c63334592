//! What kernels in pure Rust share: instruction sets, vectors of `f32`, elementwise functions and post chains on them,
//! and loops over tensors in any layout, divided among the threads of a team.
//!
//! The backend `native` is built on this crate, and kernels of other crates may be as well: [`lanes::Lanes`] and
//! [`widened!`] compile one generic function for each instruction set. The crate is apart from the kernels, as are its
//! two users (`ovolo-linear` and `ovolo-native`) from each other, so that a change of a kernel compiles few of them
//! again.

pub mod args;
pub mod block;
pub mod broadcast;
pub mod chain;
pub mod formula;
pub mod isa;
pub mod lanes;
pub mod math;
pub mod padding;
pub mod prefetch;
pub mod reference;
pub mod strided;
pub mod tile;

use ovolo::backend::Contract;

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// Returns a contract that only names its implementation.
pub fn plain_contract(implementation: &str) -> Contract {
    Contract { implementation: implementation.to_owned(), ..Contract::default() }
}

//! Tests of single modules of the library. The tests of `src/cost/noise.rs` are in `units/cost/noise.rs`, and so on.
//!
//! The library has no tests in its own files: they would be compiled together with all of it a second time. Most tests
//! here use what is public. Where a test needs private items of a module, a module `source` compiles that file of `src/`
//! once more, as a part of this program.
#![allow(clippy::unwrap_used)]

pub mod cache;
pub mod cost;
pub mod diagnostic;
pub mod digest;
mod error;
pub mod extract;
mod file;
mod fixture;
pub mod graph;
pub mod memory;
mod npy;
pub mod onnx;
pub mod op;
mod pass;
pub mod plan;
pub mod ron;
pub mod rule;
mod scalar;
mod session;
pub mod stage;
mod subprocess;
mod tensor;
mod verify;

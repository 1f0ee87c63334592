//! Tests of single modules of the library, in files with the names of the modules: `units/cost/noise.rs` tests
//! `src/cost/noise.rs`.
//!
//! The library has no tests in its own files, because they would be compiled together with all of it a second time. Most
//! tests here use what is public. Where a test needs private items, it compiles the file that has them once more, as a
//! module of this program, mostly under the name `source`. Such a file takes from its parent module what the test has in
//! scope, so some imports of a test are for that file alone. What such a file names by `crate::…` is in `main.rs`.
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

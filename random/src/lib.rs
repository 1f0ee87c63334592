//! Random ONNX models: valid by ONNX's standard, small, and the same for the same seed on every machine.
//!
//! [`generate()`] draws a model, [`Bench`] runs it in pipelines and holds the results to the reference evaluation and, with
//! a [`Runtime`], to ONNX Runtime's, and [`shrink()`] takes a model that fails apart until nothing can be taken away.

mod bench;
mod compare;
pub mod coverage;
mod draft;
mod families;
mod generate;
mod model;
mod rng;
mod runtime;
mod shrink;

pub use bench::{Bench, BenchError, Failure, Kind, Verdict};
pub use draft::{float, int, list, text};
pub use generate::generate;
pub use model::{Leaf, Model};
pub use runtime::{Runtime, StartError};
pub use shrink::shrink;

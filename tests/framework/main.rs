//! Tests of the framework, from an ONNX file to a plan that runs.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/onnx.rs"]
mod proto;

mod determinism;
mod dynamic;
mod einsum;
mod equalities;
mod extract;
mod fields;
mod fit;
mod growth;
mod levels;
mod library;
mod links;
mod merge;
mod onnx_errors;
mod onnx_import;
mod onnx_operator;
mod operators;
mod ops;
mod outputs;
mod pipelines;
mod plan;
mod provenance;
mod recurrent;
mod registry;
mod registry_errors;
mod replaced;
mod resample;
mod session;
mod stage;
mod threads;
mod tidy;
mod units;
mod weights;
mod why_not;

// Some of the files of `src/` that `units` compiles once more use it, and it is not public.
#[allow(dead_code)]
#[path = "../../src/random.rs"]
mod random;

// The names by which the files of `src/` that `units` compiles once more know the rest of the library.
use ovolo::{Plan, attr, file, onnx, tensor};
use units::diagnostic::source::diagnostic;
use units::ron::source::ron;
use units::{cost, memory};

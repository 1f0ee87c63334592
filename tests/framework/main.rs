//! Tests of the framework, from an ONNX file to a plan that runs.

#[path = "../common/mod.rs"]
mod common;

mod determinism;
mod dynamic;
mod equalities;
mod extract;
mod fit;
mod growth;
mod library;
mod merge;
mod onnx_errors;
mod onnx_import;
mod operators;
mod ops;
mod outputs;
mod plan;
mod provenance;
mod registry;
mod resample;
mod session;
mod stage;
mod tidy;
mod why_not;

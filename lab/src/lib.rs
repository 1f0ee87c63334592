//! The laboratory: experiments with cost models and extractors, and pages about a model's plan.
//!
//! [`experiment`] runs the tasks of a file and writes tables of their results. [`report`] makes HTML pages,
//! and [`buffer`] reads buffers from CSV tables, in the form that the literature on memory planning uses. [`reduce`]
//! finds the smallest graph of which something is still true.
pub mod buffer;
pub mod experiment;
pub mod reduce;
pub mod report;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from
/// others.
pub const BUILD: &str = env!("OVOLO_BUILD");

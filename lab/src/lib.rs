//! The laboratory: experiments over cost models and extractors, and pages that show what came of a model.
//!
//! [`experiment`] does the tasks of a file and writes their tables, [`report`] makes pages of HTML, and [`buffer`]
//! reads buffers from CSV tables, as the literature on memory planning has them.
pub mod buffer;
pub mod experiment;
pub mod report;

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

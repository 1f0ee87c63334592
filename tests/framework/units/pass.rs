//! Tests of passes and pipelines.

mod pipeline;
mod state;

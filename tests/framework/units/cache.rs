//! Tests of the cache's modules.

mod artifact;
mod library;

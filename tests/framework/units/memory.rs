//! Tests of the planning of memory.

mod exact;
#[allow(dead_code)]
#[path = "../../../src/memory/limit.rs"]
mod limit;
mod recompute;
mod reuse;
mod search;

pub use limit::Limit;
pub use ovolo::memory::*;

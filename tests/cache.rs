//! The cache: every field of its key, damage of every kind, what disk and processes do to it, and that
//! a plan from it gives the very bits that a new one gives.
#![allow(clippy::unwrap_used)]

mod common;

#[path = "cache/archive.rs"]
mod archive;
#[path = "cache/damage.rs"]
mod damage;
#[path = "cache/equal.rs"]
mod equal;
#[path = "cache/fixture.rs"]
mod fixture;
#[path = "cache/key.rs"]
mod key;
#[path = "cache/process.rs"]
mod process;
#[path = "cache/size.rs"]
mod size;
#[path = "cache/text.rs"]
mod text;
#[path = "cache/times.rs"]
mod times;

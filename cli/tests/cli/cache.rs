//! The cache: every field of its key, damage of every kind, what disk and processes do to it, and that
//! a plan from it gives the very bits that a new one gives.
#![allow(clippy::unwrap_used)]

mod archive;
mod damage;
mod equal;
mod fixture;
mod key;
mod process;
mod size;
mod text;
mod times;

//! Tests the cache: every field of its key, damage of every kind, the effects of disks and processes, and
//! that a plan from the cache gives the same bits as a new one.
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
mod values;

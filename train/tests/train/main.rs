//! Tests of training.
#![allow(clippy::unwrap_used)]

mod step;
mod table;

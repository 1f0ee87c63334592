//! Tests of training.
#![allow(clippy::unwrap_used)]

mod table;

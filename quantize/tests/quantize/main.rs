//! Tests of quantisation: the parts by themselves, and the network of the examples.
#![allow(clippy::unwrap_used)]

mod calibration;
mod choice;
mod data;
mod digits;
mod document;
mod fixture;
mod level;
mod residual;

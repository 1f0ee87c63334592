//! Tests of every family of kernels against the reference evaluations of the ops.
#![allow(clippy::unwrap_used)]

// Modules whose own tests need their private items. Only these are compiled a second time: the library itself has no test
// target, since that would compile every kernel again.
#[allow(dead_code)]
#[path = "../../../linear/src/strassen/modes.rs"]
mod modes;
#[allow(dead_code)]
#[path = "../../../vector/src/prefetch.rs"]
mod prefetch;
#[allow(dead_code)]
#[path = "../../../linear/src/product.rs"]
mod product;

mod cast;
#[path = "../../../tests/common/kernel.rs"]
mod check;
mod col2im;
mod convert;
mod convolution;
mod division;
mod families;
mod fixture;
mod gradient;
mod integer;
mod levels;
mod narrow;
mod order;
mod pool;
mod recurrent;
mod rows;
mod sample;
mod scatter;
mod sparse;

use ovolo_vector::{args, lanes};

//! Tests of every family of kernels against the reference evaluations of the ops, and of the loops below them.
#![allow(clippy::unwrap_used)]

// The loops that no op reaches alone, whose tests need their private items. Only these modules are compiled a second
// time: the library itself has no test target, since that would compile every kernel again.
#[allow(dead_code)]
#[path = "../../src/chain.rs"]
mod chain;
#[allow(dead_code)]
#[path = "../../src/formula.rs"]
mod formula;
#[allow(dead_code)]
#[path = "../../src/gemm.rs"]
mod gemm;
#[allow(dead_code)]
#[path = "../../src/lanes.rs"]
mod lanes;
#[allow(dead_code)]
#[path = "../../src/math.rs"]
mod math;
#[allow(dead_code)]
#[path = "../../src/strassen/modes.rs"]
mod modes;
#[allow(dead_code)]
#[path = "../../src/prefetch.rs"]
mod prefetch;
#[allow(dead_code)]
#[path = "../../src/product.rs"]
mod product;

mod cast;
#[path = "../../../tests/common/kernel.rs"]
mod check;
mod convert;
mod convolution;
mod families;
mod fixture;
mod integer;
mod pool;
mod recurrent;
mod scatter;
mod steps;
mod tiles;

//! Tests of ops.

mod forest;
mod grad;
mod integer;
mod law;
mod lookup;
mod text;
mod winograd;

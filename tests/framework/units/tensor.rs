//! Tests of tensors and their elements.

mod device;
mod narrow;
mod number;
mod sparse;
mod text;

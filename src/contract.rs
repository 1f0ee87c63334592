//! What is asked of a backend before memory is planned, and what it answers: plain data.

use crate::attr::Attrs;
use crate::tensor::TensorType;

/// One lowered op with its types: what a kernel is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The lowered op.
    pub op: &'static str,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// The types of its operands.
    pub inputs: &'a [&'a TensorType],
    /// The type of its result.
    pub output: &'a TensorType,
    /// Threads that the plan will run with.
    pub threads: usize,
}

/// What the chosen implementation promises and demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// The implementation's name: `direct-avx512`, `gemm`, ….
    pub implementation: String,
    /// Operands whose buffer the result may take, when nobody reads them later.
    pub in_place: Vec<usize>,
    /// The operand whose buffer the result must be.
    pub alias: Option<usize>,
    /// The result is this operand's bytes, unchanged: no code runs, no buffer is needed.
    pub view_of: Option<usize>,
    /// Where in that operand the result begins, in bytes.
    pub view_offset: usize,
    /// Scratch bytes, 64-byte aligned, for the duration of the step.
    pub scratch: usize,
}

//! What is asked of a backend before memory is planned, and what it answers: plain data.

use crate::attr::Attrs;
use crate::op::Op;
use crate::tensor::TensorType;

/// One lowered op with its types: what a kernel is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The lowered op.
    pub op: Op,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// The types of its operands.
    pub inputs: &'a [&'a TensorType],
    /// The type of its result.
    pub output: &'a TensorType,
    /// Threads that the plan will run with.
    pub threads: usize,
}

/// Alignment of every buffer in bytes: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

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
    /// Where in the result each operand's bytes lie, where it is nothing but their bytes, each operand in
    /// one piece: what lies there already is left alone, so the plan may let operands be computed there.
    /// Empty for all other results.
    pub parts: Vec<usize>,
    /// Scratch bytes, 64-byte aligned, for the duration of the step.
    pub scratch: usize,
}

impl Contract {
    /// Whether an operand of so many bytes may be computed where it belongs in the result: buffers begin
    /// and end on the alignment.
    pub fn joins(&self, operand: usize, bytes: usize) -> bool {
        self.parts[operand].is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN)
    }
}

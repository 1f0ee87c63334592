//! Matrix products of NVIDIA's library cuBLASLt, with what follows them.
//!
//! A product `[rows, depth]` by `[depth, columns]` in rows is the library's `columns` by `rows` in columns: the
//! operands change places, and nothing is transposed. It stores what it sums through an epilogue: a bias of each
//! column, then `relu` or `gelu-tanh`; what is added before it, element by element, is its matrix C. Which algorithm
//! it takes is an attribute, and so a choice of rules: the library names some for a product when a plan is loaded.
//! Its scratch is the plan's.

mod calls;
mod multiply;
mod problem;

use super::wanted::{CUBLASLT, Once, Opened};
pub(super) use calls::Calls;
pub(super) use multiply::{Handle, Multiply};
pub(super) use problem::Problem;
use std::sync::OnceLock;

/// cuBLASLt, looked for at the first call; or why it is not there, and what to do.
pub(super) fn opened() -> Result<&'static Opened<Calls>, String> {
    static FOUND: Once<Calls> = OnceLock::new();
    // SAFETY: the function takes nothing and gives a number.
    CUBLASLT.numbered(&FOUND, &[12, 13], |calls| unsafe { (calls.cublasLtGetVersion)() })
}

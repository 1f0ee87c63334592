//! Matrix products of NVIDIA's library cuBLASLt, with a post chain.
//!
//! The library's matrices are column-major. A row-major product of `[rows, depth]` and `[depth, columns]` is the
//! library's product of `columns` by `rows` with the operands exchanged, so nothing is transposed. An epilogue
//! computes the post chain: a bias for each column, then `relu` or `gelu-tanh`. An operand that is added elementwise
//! is the library's matrix C. The algorithm is an attribute, so rules choose it; when a plan is loaded, the library
//! lists its algorithms for a product. The plan provides the scratch memory.

mod calls;
mod multiply;
mod problem;

use super::driver;
use super::wanted::{CUBLASLT, Once, Opened};
pub(super) use calls::Calls;
pub(super) use multiply::{Handle, Multiply};
pub(super) use problem::Problem;
use std::sync::OnceLock;

/// Returns cuBLASLt. The first call searches for it. The error says why it is absent, and what the user can do.
pub(super) fn opened() -> Result<&'static Opened<Calls>, String> {
    static FOUND: Once<Calls> = OnceLock::new();
    // SAFETY: the function has no arguments and returns a number.
    let version = |calls: &Calls| unsafe { (calls.cublasLtGetVersion)() };
    // The major version is that of CUDA.
    CUBLASLT
        .numbered(&FOUND, &[12, 13], version, |calls, name| driver::supports(name, version(calls) / 10_000))
}

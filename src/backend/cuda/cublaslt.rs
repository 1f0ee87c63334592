//! The backend `cublaslt`: matrix products of NVIDIA's library cuBLASLt, with what follows them.
//!
//! A product `[rows, depth]` by `[depth, columns]` in rows is the library's `columns` by `rows` in columns: the
//! operands change places, and nothing is transposed. It stores what it sums through an epilogue: a bias of each
//! column, then `relu` or `gelu-tanh`; what is added before it, element by element, is its matrix C. Which algorithm
//! it takes is an attribute, and so a choice of rules: the library names some for a product when a plan is loaded.
//! Its scratch is the plan's.

mod calls;
mod multiply;
mod problem;

use super::alone::Alone;
use super::{Cuda, command, library};
use crate::backend::{Backend, Call, Contract, Kernel, Loading, Runner};
pub(super) use calls::Calls;
pub(super) use multiply::{Handle, Multiply};
use problem::Problem;

/// The backend.
pub struct CublasLt;

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for CublasLt {
    fn name(&self) -> &'static str {
        "cublaslt"
    }

    fn found(&self) -> Result<String, String> {
        library::cublaslt().map(|found| format!("cuBLASLt {found}"))
    }

    fn identity(&self) -> Result<String, String> {
        let version = &library::cublaslt()?.version;
        let device = library::driver_identity().unwrap_or_else(|_| "no device".to_owned());
        Ok(format!("cuBLASLt {version}, {device}"))
    }

    fn runs_with(&self) -> &'static str {
        Cuda.name()
    }

    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        library::cublaslt().map_err(|why| format!("cuBLASLt is {why}"))?;
        let problem = Problem::new(call)?;
        let scratch = command::workspace(problem.workspace);
        Ok(Contract {
            implementation: problem.name(),
            in_place: problem.residual.into_iter().collect(),
            scratch,
            ..Contract::default()
        })
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, String>> {
        Cuda.runner(loading)
    }

    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        Ok(Box::new(Alone::new(call, &self.contract(call)?)?))
    }
}

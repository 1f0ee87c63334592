//! The backend `cublaslt`: matrix products of NVIDIA's library cuBLASLt, with a post chain.

use super::Cuda;
use crate::cublaslt::{self, Problem};
use crate::device::FAMILY;
use crate::single_call::SingleCall;
use crate::wanted::CUBLASLT;
use crate::{command, driver, tf32};
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::backend::{Backend, BackendError, Call, Contract, Kernel, Loading, Runner};
use ovolo::op::{AttrDef, Attributes, Lowering, OpError, Reference};
use ovolo::tensor::{DType, TensorType};

/// The backend `cublaslt`.
pub struct CublasLt;

// SAFETY: the contract and the kernel of a call are derived from the same analysis of it, and kernels access only
// their buffers.
unsafe impl Backend for CublasLt {
    fn name(&self) -> &'static str {
        "cublaslt"
    }

    fn found(&self) -> Result<String, BackendError> {
        cublaslt::opened()
            .map(|found| format!("cuBLASLt {found}"))
            .map_err(|why| BackendError::absent(CUBLASLT.title, why))
    }

    fn identity(&self) -> Result<String, BackendError> {
        let version = &cublaslt::opened().map_err(|why| BackendError::absent(CUBLASLT.title, why))?.version;
        let device = driver::identity().unwrap_or_else(|_| "no device".to_owned());
        Ok(format!("cuBLASLt {version}, {device}"))
    }

    fn runs_with(&self) -> &'static str {
        Cuda.name()
    }

    fn ops(&self) -> Vec<Lowering> {
        vec![MATMUL]
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        Cuda.runner(loading)
    }
}

/// The only op of this backend.
const MATMUL: Lowering = Lowering {
    attributes: Attributes::Also(attributes),
    check: Some(check),
    reference: Reference::Prepared(tf32::rounded),
    device: Some(FAMILY),
    ..Lowering::new("cublaslt.matmul", "matmul", contract, kernel)
};

/// The element types that the library multiplies.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];

fn attributes() -> Vec<AttrDef> {
    let int = |name, default, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(default)), doc);
    vec![
        int(
            "algorithm",
            0,
            "the number of the algorithm in the library's list for the product, best guess first",
        ),
        int("workspace", 32, "MiB of scratch memory that the algorithm may use"),
        tf32::attribute(),
    ]
}

fn check(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    if !TYPES.contains(&result.dtype) {
        return Err(OpError::operands(format!(
            "the operands are {} and {}: f32, f16, bf16 and f64 are supported",
            types[0], types[1]
        )));
    }
    tf32::check(attrs, result.dtype)?;
    for name in ["algorithm", "workspace"] {
        let value = attrs.expect_int(name);
        if !(0..1 << 16).contains(&value) {
            return Err(OpError::attribute(name, format!("is {value}, not between 0 and 65535")));
        }
    }
    Ok(())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    cublaslt::opened().map_err(|why| OpError::backend(format!("cuBLASLt is {why}")))?;
    let problem = Problem::new(call).map_err(OpError::kernel)?;
    let scratch = command::workspace(problem.workspace);
    Ok(Contract {
        implementation: problem.name(),
        in_place: problem.residual.into_iter().collect(),
        scratch,
        ..Contract::default()
    })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(SingleCall::new(call, &contract(call)?)?))
}

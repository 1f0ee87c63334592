//! The backend `cuda`: contracts of generated kernels, and plans on a device. The backends of NVIDIA's libraries are
//! submodules.

mod cublaslt;
mod cudnn;

use super::device::FAMILY;
use super::single_call::SingleCall;
pub use cublaslt::CublasLt;
pub use cudnn::CuDnn;

use super::runtime::Runtime;
use super::transfer::copies;
use super::{driver, job, nvrtc};
use ovolo::backend::{Backend, BackendError, Call, Contract, Kernel, Loading, Runner};
use ovolo::op::{Lowering, OpError};
use ovolo::scalar::Function;

/// The backend `cuda`.
pub struct Cuda;

// SAFETY: the contract and the kernel of a call are derived from the same analysis of it, and kernels access only
// their buffers.
unsafe impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// Reports the driver if it has a device; `ovolo doctor` reports the other libraries.
    fn found(&self) -> Result<String, BackendError> {
        driver::opened().map(|driver| format!("driver {driver}")).map_err(BackendError::Absent)
    }

    fn identity(&self) -> Result<String, BackendError> {
        let driver = driver::identity().map_err(BackendError::Absent)?;
        let compiler = nvrtc::compiler()
            .map_or_else(|_| "no NVRTC".to_owned(), |one| format!("NVRTC {}", one.version()));
        Ok(format!("driver {driver}, {compiler}"))
    }

    fn plans_elsewhere(&self) -> bool {
        true
    }

    fn ops(&self) -> Vec<Lowering> {
        OPS.to_vec()
    }

    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        Some(Lowering { device: Some(FAMILY), ..Lowering::new(name, function.name(), contract, kernel) })
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        let missing = |why| {
            BackendError::Absent(format!(
                "kernels of `cuda` need an NVIDIA device, but none was found: {why}"
            ))
        };
        let runtime = driver::opened()
            .map_err(missing)
            .and_then(|_| Runtime::new(loading).map_err(BackendError::Device));
        Some(runtime.map(|runtime| Box::new(runtime) as Box<dyn Runner>))
    }
}

/// Returns the contract of a generated kernel.
fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let named = |name: &str| Contract { implementation: name.to_owned(), ..Contract::default() };
    if copies(call.op.name) {
        return Ok(named("copy"));
    }
    if call.op == "cuda.reshape" {
        return Ok(Contract { view_of: Some(0), ..named("view") });
    }
    let job = job(call)?;
    let kinds: Vec<&str> =
        job.kernels.iter().map(|kernel| kernel.name.split('_').next().unwrap_or_default()).collect();
    let name = if kinds.is_empty() { "empty".to_owned() } else { kinds.join("+") };
    Ok(Contract { scratch: job.scratch, in_place: job.in_place, ..named(&name) })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(SingleCall::new(call, &contract(call)?)?))
}

macro_rules! ops {
    ($($op:literal),* $(,)?) => {
        &[$(Lowering { device: Some(FAMILY), ..Lowering::new(concat!("cuda.", $op), $op, contract, kernel) }),*]
    };
}

/// The ops for which kernels are generated, besides the functions of one number.
const OPS: &[Lowering] = ops!(
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "min",
    "max",
    "mod",
    "equal",
    "greater",
    "less",
    "greater-equal",
    "less-equal",
    "and",
    "or",
    "xor",
    "not",
    "isnan",
    "where",
    "cast",
    "map",
    "matmul",
    "conv",
    "softmax",
    "log-softmax",
    "layer-norm",
    "batch-norm",
    "instance-norm",
    "lrn",
    "reduce-sum",
    "reduce-max",
    "reduce-min",
    "reduce-prod",
    "arg-max",
    "arg-min",
    "reshape",
    "transpose",
    "slice",
    "gather",
    "gather-elements",
    "expand",
    "pad",
    "attention",
    "pack",
    "unpack",
    "max-pool",
    "avg-pool",
    "reduce-mean",
    "concat",
    "grad",
    "tree",
    "upload",
    "download",
);

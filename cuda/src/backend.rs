//! The backend in the list: contracts of generated kernels, and plans on a device.

use super::alone::Alone;
use super::runtime::Runtime;
use super::{job, library, nvrtc};
use ovolo::backend::{Backend, BackendError, Call, Contract, Kernel, Loading, Runner};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::Family;

/// The family of devices that the backend runs on.
pub const FAMILY: Family = Family::new("cuda");

/// The backend.
pub struct Cuda;

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// The driver with a device; what else there is `ovolo doctor` says.
    fn found(&self) -> Result<String, BackendError> {
        library::driver().map(|driver| format!("driver {driver}")).map_err(BackendError::Absent)
    }

    fn identity(&self) -> Result<String, BackendError> {
        let driver = library::driver_identity().map_err(BackendError::Absent)?;
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

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        let missing = |why| {
            BackendError::Absent(format!(
                "kernels of `cuda` need a device of NVIDIA, and none was found: {why}"
            ))
        };
        let runtime = library::driver()
            .map_err(missing)
            .and_then(|_| Runtime::new(loading).map_err(BackendError::Device));
        Some(runtime.map(|runtime| Box::new(runtime) as Box<dyn Runner>))
    }
}

/// A generated kernel's contract.
fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let named = |name: &str| Contract { implementation: name.to_owned(), ..Contract::default() };
    if library::copies(call.op.name) {
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
    Ok(Box::new(Alone::new(call, &contract(call)?).map_err(OpError::backend)?))
}

macro_rules! ops {
    ($($op:literal),* $(,)?) => {
        &[$(Lowering { device: Some(FAMILY), ..Lowering::new(concat!("cuda.", $op), $op, contract, kernel) }),*]
    };
}

/// The ops that kernels are generated for.
const OPS: &[Lowering] = ops!(
    "relu",
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "log",
    "sqrt",
    "neg",
    "abs",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "sign",
    "softplus",
    "softsign",
    "sin",
    "cos",
    "silu",
    "gelu",
    "gelu-tanh",
    "hard-swish",
    "mish",
    "leaky-relu",
    "elu",
    "hard-sigmoid",
    "clip",
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

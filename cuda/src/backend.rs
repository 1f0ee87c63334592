//! The backend in the list: contracts of generated kernels, and plans on a device.

use super::alone::Alone;
use super::runtime::Runtime;
use super::{job, library, nvrtc};
use ovolo::backend::{Backend, Call, Contract, Kernel, Loading, Runner};
use ovolo::op::Lowering;
use ovolo::scalar::Function;
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
    fn found(&self) -> Result<String, String> {
        library::driver().map(|driver| format!("driver {driver}"))
    }

    fn identity(&self) -> Result<String, String> {
        let driver = library::driver_identity()?;
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

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, String>> {
        let missing = |why| format!("kernels of `cuda` need a device of NVIDIA, and none was found: {why}");
        let runtime = self.found().map_err(missing).and_then(|_| Runtime::new(loading));
        Some(runtime.map(|runtime| Box::new(runtime) as Box<dyn Runner>))
    }
}

/// A generated kernel's contract.
fn contract(call: &Call<'_>) -> Result<Contract, String> {
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

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Alone::new(call, &contract(call)?)?))
}

macro_rules! ops {
    ($($op:literal),* $(,)?) => {
        &[$(Lowering { device: Some(FAMILY), ..Lowering::new(concat!("cuda.", $op), $op, contract, kernel) }),*]
    };
}

/// The ops that kernels are generated for, beside functions of one number.
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

//! The backend in the list: contracts of generated kernels and of libraries.

use super::job;
use crate::backend::{Backend, Call, Contract, Kernel};

/// The backend.
pub struct Cuda;

/// Ops that a library computes.
const LIBRARIES: &[(&str, &str)] =
    &[("cuda.conv", "cudnn"), ("cuda.matmul", "cublaslt"), ("cuda.attention", "cudnn-attention")];

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// The driver with a device; what else there is `ovolo doctor` says.
    fn found(&self) -> Result<String, String> {
        super::library::driver().map(|driver| format!("driver {driver}"))
    }

    fn plans_elsewhere(&self) -> bool {
        true
    }

    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        let named = |name: &str| Contract { implementation: name.to_owned(), ..Contract::default() };
        if matches!(call.op, "cuda.upload" | "cuda.download") {
            return Ok(named("copy"));
        }
        if let Some((_, library)) = LIBRARIES.iter().find(|(op, _)| *op == call.op) {
            return Ok(named(library));
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

    fn kernel(&self, _: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        let why = match self.found() {
            Ok(driver) => format!("{driver} is there, and this version does not run plans on it yet"),
            Err(why) => format!("no device was found: {why}"),
        };
        Err(format!("kernels of `cuda` need a device of NVIDIA: {why}"))
    }
}

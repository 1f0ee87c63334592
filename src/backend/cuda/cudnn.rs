//! The backend `cudnn`: convolutions of NVIDIA's library cuDNN, with a bias, a residual and `relu`.
//!
//! Data lie in `nchw` or `nhwc`, and weights as they do. Which of the library's forward algorithms a call takes is an
//! attribute, and so a choice of rules; which of them there are for its shapes follows from the library's
//! documentation as far as that goes, and is held to the library when a plan is loaded. Its scratch is the plan's: as
//! much as an algorithm can want, since how much it does want the library says on a device alone.

mod calls;
mod convolve;
mod problem;

use super::alone::Alone;
use super::{Cuda, command, library};
use crate::backend::{Backend, Call, Contract, Kernel, Loading, Runner};
pub(super) use calls::Calls;
pub(super) use convolve::{Convolve, Handle};
use problem::Problem;

/// The backend.
pub struct CuDnn;

impl Backend for CuDnn {
    fn name(&self) -> &'static str {
        "cudnn"
    }

    fn found(&self) -> Result<String, String> {
        library::cudnn().map(|found| format!("cuDNN {found}"))
    }

    fn identity(&self) -> Result<String, String> {
        let version = &library::cudnn()?.version;
        let device = library::driver_identity().unwrap_or_else(|_| "no device".to_owned());
        Ok(format!("cuDNN {version}, {device}"))
    }

    fn runs_with(&self) -> &'static str {
        Cuda.name()
    }

    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        library::cudnn().map_err(|why| format!("cuDNN is {why}"))?;
        let problem = Problem::new(call)?;
        let scratch = command::workspace(problem.workspace());
        Ok(Contract { implementation: problem.name(), scratch, ..Contract::default() })
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, String>> {
        Cuda.runner(loading)
    }

    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        Ok(Box::new(Alone::new(call, &self.contract(call)?)?))
    }
}

//! The backend `cudnn`: convolutions and attention of NVIDIA's library cuDNN, with what follows them.
//!
//! Data lie in `nchw` or `nhwc`, and weights as they do. `cudnn.conv` is one call of the library's, with a bias, a
//! residual and `relu`. Which of the library's forward algorithms it takes is an attribute, and so a choice of rules;
//! which of them there are for its shapes follows from the library's documentation as far as that goes, and is held to
//! the library when a plan is loaded. Its scratch is the plan's: as much as an algorithm can want, since how much it
//! does want the library says on a device alone. `cudnn.conv-graph` and `cudnn.attention` are graphs of operations
//! ([`graph`]), which the library computes in one kernel.

mod calls;
mod convolve;
mod graph;
mod handle;
mod op;
mod problem;

use super::command::{Buffers, Queued};
use super::library::Opened;
use super::{Cuda, library};
use calls::Calls;
use convolve::Convolve;
pub(super) use handle::Handle;
use ovolo::backend::{Backend, BackendError, Call, Loading, Runner};
use ovolo::op::Lowering;
use std::rc::Rc;

/// The backend.
pub struct CuDnn;

/// The library's functions: those that every version has, and those of graphs, or why they are not there.
pub(super) struct Functions {
    base: Calls,
    graph: Result<graph::Calls, String>,
}

impl super::calls::Calls for Functions {
    fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
        let graph = graph::Calls::find(library).map_err(|error| error.to_string());
        Ok(Self { base: Calls::find(library)?, graph })
    }
}

impl Functions {
    /// The version as one number: 92800 is 9.28.0.
    pub fn version(&self) -> usize {
        // SAFETY: the function takes nothing and gives a number.
        unsafe { (self.base.cudnnGetVersion)() }
    }

    /// What was found, and what it lacks of graphs.
    pub fn told(&self, found: &Opened<Self>) -> String {
        let lacks = match &self.graph {
            Err(why) => format!("; it has no graphs of operations ({why}): their kernels are no candidates"),
            Ok(_) if self.version() < graph::SOFTMAX => {
                "; its graphs have no softmax, which 9.21 has: its attention is no candidate".to_owned()
            }
            Ok(_) => String::new(),
        };
        format!("{found}{lacks}")
    }
}

/// What a call queues.
///
/// # Errors
/// That the library has no kernel for it, or what it said.
pub(super) fn queued(
    handle: &Rc<Handle>,
    call: &Call<'_>,
    buffers: &Buffers,
) -> Result<Box<dyn Queued>, String> {
    if call.op == "cudnn.conv" {
        return Ok(Box::new(Convolve::new(handle, call, buffers)?));
    }
    Ok(Box::new(graph::Execute::new(handle, call, buffers)?))
}

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for CuDnn {
    fn name(&self) -> &'static str {
        "cudnn"
    }

    fn found(&self) -> Result<String, BackendError> {
        let found = library::cudnn().map_err(BackendError::Absent)?;
        Ok(format!("cuDNN {}", found.calls.told(found)))
    }

    fn identity(&self) -> Result<String, BackendError> {
        let version = &library::cudnn().map_err(BackendError::Absent)?.version;
        let device = library::driver_identity().unwrap_or_else(|_| "no device".to_owned());
        Ok(format!("cuDNN {version}, {device}"))
    }

    fn runs_with(&self) -> &'static str {
        Cuda.name()
    }

    fn ops(&self) -> Vec<Lowering> {
        op::OPS.to_vec()
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        Cuda.runner(loading)
    }
}

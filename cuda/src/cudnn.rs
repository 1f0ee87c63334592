//! Convolutions and attention of NVIDIA's library cuDNN, with post chains.
//!
//! Images are in `nchw` or `nhwc`, and weights are in the same layout. `cudnn.conv` is one library call, with a bias,
//! a residual and `relu`. The library's forward algorithm is an attribute, so rules choose it. Which algorithms
//! support given shapes is taken from the library's documentation as far as it says, and with a device the library is
//! asked. The plan provides the scratch memory: as much as the library says, or without a device as much as an
//! algorithm can need. `cudnn.conv-graph` and `cudnn.attention` are graphs of operations
//! ([`graph`]), which the library computes in one kernel.

mod calls;
mod convolve;
mod described;
mod graph;
mod handle;
mod problem;
mod workspace;

use super::command::{Buffers, Means, Queued};
use super::driver;
use super::wanted::{CUDNN, Once, Opened};
use calls::Calls;
use convolve::Convolve;
pub(super) use graph::contract;
pub(super) use handle::Handle;
use ovolo::op::Call;
pub(super) use problem::Problem;
use std::sync::OnceLock;
pub(super) use workspace::workspace;

/// The library's functions: those of every version, and those for graphs or the reason why they are absent.
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
    /// Returns the version as one number: 92800 is 9.28.0.
    pub fn version(&self) -> usize {
        // SAFETY: the function has no arguments and returns a number.
        unsafe { (self.base.cudnnGetVersion)() }
    }

    /// Returns the major version of CUDA that the library was built for.
    fn cuda(&self) -> usize {
        // SAFETY: the function has no arguments and returns a number: 13000 is 13.0.
        unsafe { (self.base.cudnnGetCudartVersion)() / 1000 }
    }

    /// Describes the library that was found, and which features of graphs it lacks.
    pub fn describe(&self, found: &Opened<Self>) -> String {
        let lacks = match &self.graph {
            Err(why) => {
                format!("; it has no graphs of operations ({why}), so their kernels are not candidates")
            }
            Ok(_) => String::new(),
        };
        format!("{found}{lacks}")
    }
}

/// Creates the library call of a lowered op.
///
/// # Errors
/// If the library has no kernel for it or reports an error.
pub(super) fn queued(
    handle: &'static Handle,
    call: &Call<'_>,
    buffers: &Buffers,
    means: &mut Means<'_>,
) -> Result<Box<dyn Queued>, String> {
    if call.op == "cudnn.conv" {
        return Ok(Box::new(Convolve::new(handle, call, buffers)?));
    }
    Ok(Box::new(graph::Execute::new(handle, call, buffers, means)?))
}

/// Returns cuDNN. The first call searches for it. The error says why it is absent, and what the user can do.
pub(super) fn opened() -> Result<&'static Opened<Functions>, String> {
    static FOUND: Once<Functions> = OnceLock::new();
    CUDNN.numbered(&FOUND, &[9], Functions::version, |calls, name| driver::supports(name, calls.cuda()))
}

//! The backend `cuda`: kernels in CUDA C++, generated for what a graph needs and compiled when it is loaded.
//!
//! A call becomes a [`Job`]: kernels whose text is written for its shapes and types, with how they are
//! launched. The same work has the same text whatever the names, and a [`Module`] holds each text once.
//!
//! NVIDIA's libraries are backends of their own ([`CublasLt`], [`CuDnn`]), whose calls are queued beside those kernels: a plan
//! with any of them is this backend's to run.

mod alone;
mod backend;
mod calls;
mod chain;
mod command;
mod cublaslt;
mod cudnn;
mod derivative;
mod device;
mod driver;
mod expr;
#[cfg(test)]
mod fixture;
mod handles;
mod kernel;
mod library;
mod lines;
mod lower;
mod map;
mod module;
pub mod nvrtc;
mod place;
mod prelude;
mod product;
mod reduce;
mod runtime;
mod scalar;
mod space;
mod tf32;
mod tile;
mod transfer;
mod wanted;
mod window;
mod write;

pub use backend::{CuDnn, CublasLt, Cuda};
pub use device::FAMILY;
pub use kernel::{Argument, Job, Kernel, Launch};
pub use library::{Found, libraries};
pub use lower::job;
pub use module::Module;

use ovolo::registry::{Registry, RegistryError};
use std::sync::Arc;

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// Adds the backends `cuda`, `cublaslt` and `cudnn` with their ops to a registry, whether or not there is a device.
///
/// # Errors
/// If the registry has another backend of one of the names, or lacks an op that one of their ops lowers.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    for transfer in transfer::ops() {
        registry.add_op(transfer)?;
    }
    registry.add_build("ovolo-cuda", BUILD);
    registry.add_backend(Arc::new(Cuda))?;
    registry.add_backend(Arc::new(CublasLt))?;
    registry.add_backend(Arc::new(CuDnn))
}

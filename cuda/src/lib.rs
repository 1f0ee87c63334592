//! The backend `cuda`: kernels in CUDA C++ that are generated for a graph, and compiled when a plan is loaded.
//!
//! A call becomes a [`KernelJob`]: kernels whose text is generated for its shapes and types, with their launches. Equal
//! work has equal text, independently of names, and a [`Module`] contains each text once.
//!
//! NVIDIA's libraries are separate backends ([`CublasLt`], [`CuDnn`]), whose calls are queued together with generated
//! kernels: this backend runs every plan that uses any of the three.

mod attention;
mod backend;
mod calls;
mod chain;
mod channels;
mod command;
mod cublaslt;
mod cudnn;
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
mod shared;
mod single_call;
mod space;
mod tf32;
mod tile;
mod transfer;
mod wanted;
mod window;
mod write;

pub use backend::{CuDnn, CublasLt, Cuda};
pub use device::FAMILY;
pub use kernel::{Argument, KernelJob, KernelSource, Launch};
pub use lower::{generated, job};
pub use module::Module;

use ovolo::registry::{Registry, RegistryError};
use std::sync::Arc;

/// The identity of this build of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// Adds the backends `cuda`, `cublaslt` and `cudnn` with their ops to a registry, whether or not there is a device.
///
/// # Errors
/// If the registry already has a backend of one of these names, or lacks a logical op that one of these ops lowers.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    for transfer in transfer::ops() {
        registry.add_op(transfer)?;
    }
    registry.add_build("ovolo-cuda", BUILD);
    registry.add_backend(Arc::new(Cuda))?;
    registry.add_backend(Arc::new(CublasLt))?;
    registry.add_backend(Arc::new(CuDnn))
}

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
mod command;
mod cublaslt;
mod cudnn;
mod derivative;
mod driver;
mod expr;
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
mod tile;
mod window;
mod write;

pub use backend::Cuda;
pub use cublaslt::CublasLt;
pub use cudnn::CuDnn;
pub use kernel::{Argument, Job, Kernel, Launch};
pub use library::{Found, libraries};
pub use lower::job;
pub use module::Module;

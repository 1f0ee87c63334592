//! Backends: who can run a lowered op, under which contract, and the kernels themselves.
//!
//! For given types a backend answers for each lowered op: supported or why not, the
//! implementation's name, and its contract with the memory planner. All of it is asked before
//! memory is planned, of exactly the implementation that was chosen.

#[cfg(test)]
mod check;
pub mod cuda;
pub mod features;
pub mod native;
pub mod onednn;
pub mod team;

pub use crate::contract::{Call, Contract};
use team::Team;

/// A kernel for fixed types, attributes and threads. Built once, run many times.
pub trait Kernel: Send + Sync {
    /// Computes the result. Does not allocate.
    fn run(&self, args: &Args<'_>);
}

/// The buffers of one step. Lengths are those of the types in the [`Call`], in bytes.
pub struct Args<'a> {
    /// The operands.
    pub inputs: &'a [*const u8],
    /// The result; may be one of the operands where the contract allows it.
    pub output: *mut u8,
    /// Scratch of the size in the contract (dangling when that is zero).
    pub scratch: *mut u8,
    /// The threads.
    pub team: &'a Team,
}

/// A set of kernels under one name.
pub trait Backend: Sync {
    /// The name: the prefix of its lowered ops.
    fn name(&self) -> &'static str;

    /// What the backend is made of, in one line; or why it is not there, and where it was looked for.
    ///
    /// # Errors
    /// That it is not there.
    fn found(&self) -> Result<String, String> {
        Ok("part of ovolo".to_owned())
    }

    /// Whether plans for it can be made where it is not: contracts and prices do not ask for it.
    fn plans_elsewhere(&self) -> bool {
        false
    }

    /// What its kernels depend on beside what was found: names and values, in a fixed order.
    fn details(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The contract of the implementation for a call, or why there is none.
    fn contract(&self, call: &Call<'_>) -> Result<Contract, String>;

    /// Makes the kernel for a call whose contract was given.
    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String>;
}

/// Every backend. A new one is a file and a line here.
pub const BACKENDS: &[&dyn Backend] = &[&native::Native, &onednn::OneDnn, &cuda::Cuda];

/// The backend with this name.
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    BACKENDS.iter().find(|backend| backend.name() == name).copied()
}

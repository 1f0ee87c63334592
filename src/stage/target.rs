//! The machine that a program shall run on.

use crate::op::{Call, Contract, OpError};
use std::sync::Arc;

/// The machine that a program shall run on. It decides which kernels exist.
#[derive(Clone, Debug)]
pub struct Target {
    /// The number of threads.
    pub threads: usize,
    /// The names of the enabled backends.
    pub backends: Arc<[String]>,
}

impl Target {
    /// Returns the contract of a call's kernel.
    ///
    /// # Errors
    /// If the backend refuses the call, with its reason, or if the backend is not enabled.
    pub fn contract(&self, call: &Call<'_>) -> Result<Contract, OpError> {
        let Some(name) = call.op.backend() else { return call.contract() };
        if !self.backends.iter().any(|backend| backend == name) {
            return Err(OpError::NotInPlay { backend: name.to_owned() });
        }
        call.contract()
    }
}

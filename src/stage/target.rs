//! What a program is to run on.

use crate::op::{Call, Contract, OpError};
use std::sync::Arc;

/// What a program is to run on: it decides which kernels there are.
#[derive(Clone, Debug)]
pub struct Target {
    /// Threads.
    pub threads: usize,
    /// The names of the backends in play.
    pub backends: Arc<[String]>,
}

impl Target {
    /// The contract of a call's kernel.
    ///
    /// # Errors
    /// The backend's reason for refusing the call, or that its backend is not in play.
    pub fn contract(&self, call: &Call<'_>) -> Result<Contract, OpError> {
        let name = call.op.backend().unwrap_or_default();
        if !self.backends.iter().any(|backend| backend == name) {
            return Err(OpError::NotInPlay { backend: name.to_owned() });
        }
        call.contract()
    }
}

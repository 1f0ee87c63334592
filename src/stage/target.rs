//! What a program is to run on.

use crate::op::{Call, Contract};
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
    pub fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        let Some(name) = call.op.backend() else { return call.contract() };
        if !self.backends.iter().any(|backend| backend == name) {
            return Err(format!("backend `{name}` is not in this pipeline"));
        }
        call.contract()
    }
}

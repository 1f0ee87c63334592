//! The memory in which plans run.

use super::SessionError;
use crate::tensor::{DType, Tensor, TensorType};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory for the arenas of sessions that run in turns. It is as large as the largest of them, and is kept until the
/// last of these sessions is dropped. Nothing in it outlives a run.
pub struct Workspace(Mutex<Tensor>);

impl Workspace {
    /// Makes a workspace for arenas of up to this many bytes.
    ///
    /// # Errors
    /// [`SessionError::Memory`] if they cannot be allocated.
    pub fn new(bytes: usize) -> Result<Self, SessionError> {
        allocate(bytes).map(|tensor| Self(Mutex::new(tensor)))
    }

    /// Makes the workspace larger if an arena of this many bytes does not fit in it.
    ///
    /// # Errors
    /// [`SessionError::Memory`] if the bytes cannot be allocated. Then the workspace stays as it is.
    pub fn reserve(&self, bytes: usize) -> Result<(), SessionError> {
        let mut held = self.hold();
        if held.ty().bytes() < bytes {
            *held = allocate(bytes)?;
        }
        Ok(())
    }

    /// Waits until no session runs in the workspace, and takes it for a run.
    pub(super) fn hold(&self) -> MutexGuard<'_, Tensor> {
        // A run that panicked leaves nothing behind that the next one reads.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn allocate(bytes: usize) -> Result<Tensor, SessionError> {
    let ty = TensorType::plain(DType::U8, [bytes.max(1)]);
    Tensor::try_zeros(ty).ok_or(SessionError::Memory(bytes))
}

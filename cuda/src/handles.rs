//! The open libraries of a context.

use super::command::{Buffers, Command};
use super::driver::Context;
use super::{cublaslt, cudnn};
use ovolo::op::Call;
use std::rc::Rc;

/// The libraries of a context. Each is opened for its first call.
pub(super) struct Libraries {
    context: Rc<Context>,
    cublaslt: Option<Rc<cublaslt::Handle>>,
    cudnn: Option<Rc<cudnn::Handle>>,
}

impl Libraries {
    pub fn new(context: &Rc<Context>) -> Self {
        Self { context: Rc::clone(context), cublaslt: None, cudnn: None }
    }

    /// Returns the command for a library op.
    ///
    /// # Errors
    /// If no library has the op, or if the library reports an error; the message also says what the user can do.
    pub(crate) fn command(&mut self, call: &Call<'_>, buffers: &Buffers) -> Result<Command, String> {
        if call.op.name.starts_with("cudnn.") {
            let handle = match &self.cudnn {
                Some(handle) => Rc::clone(handle),
                None => Rc::clone(self.cudnn.insert(cudnn::Handle::new(&self.context)?)),
            };
            return Ok(Command::Library(cudnn::queued(&handle, call, buffers)?));
        }
        if !call.op.name.starts_with("cublaslt.") {
            return Err(format!("no library computes `{}`", call.op));
        }
        let handle = match &self.cublaslt {
            Some(handle) => Rc::clone(handle),
            None => Rc::clone(self.cublaslt.insert(cublaslt::Handle::new(&self.context)?)),
        };
        Ok(Command::Library(Box::new(cublaslt::Multiply::new(&handle, call, buffers)?)))
    }
}

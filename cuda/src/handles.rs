//! The libraries of a context.

use super::command::{Buffers, Command};
use super::driver::Context;
use super::{cublaslt, cudnn};
use ovolo::op::Call;
use std::rc::Rc;

/// The libraries of a context, each opened when the first of its calls is made.
pub(super) struct Libraries {
    context: Rc<Context>,
    cublaslt: Option<Rc<cublaslt::Handle>>,
    cudnn: Option<Rc<cudnn::Handle>>,
}

impl Libraries {
    pub fn new(context: &Rc<Context>) -> Self {
        Self { context: Rc::clone(context), cublaslt: None, cudnn: None }
    }

    /// What a call of a library's op queues.
    ///
    /// # Errors
    /// That no library has it; or what the library said, and what to do.
    pub fn command(&mut self, call: &Call<'_>, buffers: &Buffers) -> Result<Command, String> {
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

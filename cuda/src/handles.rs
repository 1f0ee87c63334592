//! The library calls of lowered ops. Each library is opened for its first call.

use super::command::{Buffers, Command, Means};
use super::{cublaslt, cudnn};
use ovolo::op::Call;

/// Returns the command for a library op.
///
/// # Errors
/// If no library has the op, or if the library reports an error; the message also says what the user can do.
pub(crate) fn library(call: &Call<'_>, buffers: &Buffers, means: &mut Means<'_>) -> Result<Command, String> {
    if call.op.name.starts_with("cudnn.") {
        return Ok(Command::Library(cudnn::queued(cudnn::Handle::shared()?, call, buffers, means)?));
    }
    if !call.op.name.starts_with("cublaslt.") {
        return Err(format!("no library computes `{}`", call.op));
    }
    Ok(Command::Library(Box::new(cublaslt::Multiply::new(cublaslt::Handle::shared()?, call, buffers)?)))
}

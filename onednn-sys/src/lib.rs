//! Bindings to the C API of oneDNN 3.x, which is loaded at run time.
//!
//! [`library`] searches for the library once per process and reports where it searched; all other objects are created
//! from its result. The declarations are our own, and cover what ovolo uses. A primitive is created and run with one
//! thread ([`OneThread`]), because the caller has its own threads and divides the work.
//!
//! ```
//! match onednn_sys::library() {
//!     Ok(library) => println!("oneDNN {} at {}", library.version(), library.path()),
//!     Err(missing) => println!("{missing}"),
//! }
//! ```

mod api;
mod attr;
mod desc;
mod graph;
mod load;
mod openmp;
mod primitive;
mod recurrent;
mod tag;
mod thread;

pub use attr::{Algorithm, Attr};
pub use desc::{DataType, Desc, Format};
pub use graph::{Graph, NoGraph, Operation, Partition, Value};
pub use load::{Library, Missing, Version, library};
pub use primitive::{Arg, Primitive, PrimitiveDesc, Window};
pub use recurrent::{Direction, Sequence};
pub use tag::{Tag, find as tag};
pub use thread::OneThread;

use std::ffi::c_int;

/// A request that the library refused, with its status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}", status_text(*status))]
pub struct Error {
    /// The request.
    pub what: &'static str,
    /// The status.
    pub status: c_int,
}

impl Error {
    /// Returns whether no implementation supports the request.
    #[must_use]
    pub fn unimplemented(&self) -> bool {
        matches!(self.status, 3 | 4)
    }
}

/// Returns the library's name for a status.
fn status_text(status: c_int) -> &'static str {
    match status {
        0 => "success",
        1 => "out_of_memory",
        2 => "invalid_arguments",
        3 => "unimplemented",
        4 => "last_impl_reached",
        5 => "runtime_error",
        6 => "not_required",
        7 => "invalid_graph",
        8 => "invalid_graph_op",
        9 => "invalid_shape",
        10 => "invalid_data_type",
        _ => "a status that is unknown to this crate",
    }
}

fn check(status: c_int, what: &'static str) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error { what, status }) }
}

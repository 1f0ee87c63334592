//! The backend `onednn`: kernels of the library oneDNN, if it is found at run time.
//!
//! A primitive runs on one thread, and the threads of the team share the work. Each thread has its own primitives for
//! its part of the result: images, then rows or channels, whichever are outermost in memory. The rules choose the
//! layouts. The backend refuses a call if the library has only its reference implementation for it.

mod attention;
mod concat;
mod conv;
mod desc;
mod integer;
mod map;
mod matmul;
mod normalize;
mod pool;
mod recurrent;
mod reduce;
mod reorder;
mod resize;
mod step;
mod transposed;
mod work;

use onednn_sys::Library;
use ovolo::backend::{Backend, BackendError, Call, RuntimeLibrary};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::registry::{Registry, RegistryError};
use std::path::PathBuf;
use std::sync::Arc;
use work::Work;

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// The backend `onednn`.
pub struct OneDnn;

/// Adds the backend and its ops to a registry, whether or not the library is found.
///
/// # Errors
/// If the registry already has a backend of this name, or lacks a logical op that one of these ops lowers.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add_build("ovolo-onednn", BUILD);
    registry.add_backend(Arc::new(OneDnn))
}

/// A function that divides the work of a call between threads.
type Divide = fn(&'static Library, &Call<'_>) -> Result<Work, OpError>;

fn divide(by: Divide, call: &Call<'_>) -> Result<Work, OpError> {
    by(onednn_sys::library().map_err(OpError::backend)?, call)
}

/// Declares an op by its name, its logical op and the function that divides its work.
macro_rules! op {
    ($name:literal, $of:literal, $by:path) => {
        Lowering {
            choices: |call| crate::divide($by, call).map_or_else(|_| Vec::new(), |work| work.choices(call)),
            ..Lowering::new(
                $name,
                $of,
                |call| Ok(crate::divide($by, call)?.contract()),
                |call| Ok(Box::new(crate::divide($by, call)?.kernel()?)),
            )
        }
    };
}
use op;

/// The families, each a list of ops. A new family is a file and a line here; a new op of a family is a line in its
/// list.
const FAMILIES: &[&[Lowering]] = &[
    conv::OPS,
    transposed::OPS,
    resize::OPS,
    matmul::OPS,
    integer::OPS,
    pool::OPS,
    normalize::OPS,
    map::OPS,
    reorder::OPS,
    concat::OPS,
    reduce::OPS,
    recurrent::OPS,
    attention::OPS,
];

/// The result has the layout of the first operand, which may be any. The library decides later which layouts have a
/// kernel.
const AS_OPERAND: Layouts = Layouts::Typed {
    infer: |op, attrs, types| Ok(op.logical_result(attrs, types)?.with_layout(types[0].layout.clone())),
    samples: &[Form::same("plain"), Form::same("nChw16c"), Form::same("nhwc")],
};

/// The usual name of the library.
const NAME: &str = "oneDNN";

fn absent(why: &onednn_sys::Missing) -> BackendError {
    BackendError::absent(NAME, why.to_string())
}

// SAFETY: the contract and the kernel of a call are derived from the same division of its work, and kernels access
// only their buffers.
unsafe impl Backend for OneDnn {
    fn name(&self) -> &'static str {
        "onednn"
    }

    fn ops(&self) -> Vec<Lowering> {
        FAMILIES.concat()
    }

    fn found(&self) -> Result<String, BackendError> {
        onednn_sys::library().map(|library| format!("{library:?}")).map_err(absent)
    }

    fn libraries(&self) -> Vec<RuntimeLibrary> {
        vec![RuntimeLibrary { name: NAME, found: self.found() }]
    }

    fn identity(&self) -> Result<String, BackendError> {
        let library = onednn_sys::library().map_err(absent)?;
        let details = self.details();
        let details: String = details.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        Ok(format!("oneDNN {} ({}){details}", library.version(), library.runtime()))
    }

    fn details(&self) -> Vec<(String, String)> {
        let Ok(library) = onednn_sys::library() else { return Vec::new() };
        // The library reads these variables when it is loaded; they select instruction sets.
        let mut found: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .filter(|(name, _)| name.starts_with("ONEDNN_") || name.starts_with("DNNL_"))
            .collect();
        found.sort();
        found.insert(0, ("revision".to_owned(), library.revision().to_owned()));
        found
    }

    fn files(&self) -> Vec<PathBuf> {
        onednn_sys::library().map(|library| library.file().to_owned()).into_iter().collect()
    }
}

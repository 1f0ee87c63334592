//! The backend `onednn`: kernels of the library oneDNN, where it is found at run time.
//!
//! A primitive runs on one thread, and the team's threads share the work: each has primitives of its
//! own for its part of the result (images, then rows or channels, whichever lie outermost in memory).
//! Layouts come from the call, and so from the rules; what the library has only its reference
//! implementation for is refused.

mod concat;
mod conv;
mod desc;
mod map;
mod matmul;
mod normalize;
mod pool;
mod reduce;
mod reorder;
mod resize;
mod step;
mod transposed;
mod work;

use super::{Backend, Call, Contract, Kernel};
use onednn_sys::Library;
use std::path::PathBuf;
use work::Work;

/// The backend.
pub struct OneDnn;

/// Divides the work of a call.
type Divide = fn(&'static Library, &Call<'_>) -> Result<Work, String>;

/// What the backend has kernels for.
const ENTRIES: &[(&str, Divide)] = &[
    ("onednn.conv", conv::work),
    ("onednn.conv-transpose", transposed::work),
    ("onednn.resize", resize::work),
    ("onednn.matmul", matmul::work),
    ("onednn.matmul-packed", matmul::work),
    ("onednn.max-pool", pool::work),
    ("onednn.avg-pool", pool::work),
    ("onednn.softmax", normalize::softmax),
    ("onednn.log-softmax", normalize::softmax),
    ("onednn.layer-norm", normalize::layer_norm),
    ("onednn.map", map::work),
    ("onednn.pack", reorder::work),
    ("onednn.unpack", reorder::work),
    ("onednn.reorder", reorder::work),
    ("onednn.concat", concat::work),
    ("onednn.reduce-sum", reduce::work),
    ("onednn.reduce-mean", reduce::work),
    ("onednn.reduce-max", reduce::work),
    ("onednn.reduce-min", reduce::work),
    ("onednn.reduce-prod", reduce::work),
];

fn divide(call: &Call<'_>) -> Result<Work, String> {
    let library = onednn_sys::library().map_err(ToString::to_string)?;
    let (_, divide) = ENTRIES
        .iter()
        .find(|(op, _)| call.op == *op)
        .ok_or_else(|| format!("oneDNN has no kernel for `{}`", call.op))?;
    divide(library, call)
}

// SAFETY: a contract and a kernel for a call are made by one reading of it, and kernels keep to their buffers.
unsafe impl Backend for OneDnn {
    fn name(&self) -> &'static str {
        "onednn"
    }

    fn found(&self) -> Result<String, String> {
        onednn_sys::library().map(|library| format!("{library:?}")).map_err(ToString::to_string)
    }

    fn identity(&self) -> Result<String, String> {
        let library = onednn_sys::library().map_err(ToString::to_string)?;
        let details = self.details();
        let details: String = details.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        Ok(format!("oneDNN {} ({}){details}", library.version(), library.runtime()))
    }

    fn details(&self) -> Vec<(String, String)> {
        let Ok(library) = onednn_sys::library() else { return Vec::new() };
        // The library reads these when it is loaded, and chooses instruction sets by them.
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

    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        Ok(divide(call)?.contract())
    }

    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        Ok(Box::new(divide(call)?.kernel()?))
    }
}

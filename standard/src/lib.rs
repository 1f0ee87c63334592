//! What ovolo ships, in one place: the registry with every backend of this repository, and the program `ovolo`, which
//! is the command line with this registry and with the commands that know a backend.
//!
//! No other library crate depends on a backend's kernels, so that a change of a kernel compiles its crate and this one.

mod kernels;
mod lsp;

pub use kernels::Kernels;
pub use lsp::Lsp;

use ovolo::registry::Registry;

/// The registry that ovolo ships: its own ops, and the backends `native`, `onednn`, `cuda`, `cublaslt` and
/// `cudnn`.
///
/// # Panics
/// Never, because the names of the backends and of their ops differ.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry)
        .and_then(|()| ovolo_onednn::register(&mut registry))
        .and_then(|()| ovolo_cuda::register(&mut registry))
        .expect("the names of the backends and of their ops differ");
    // The language server decides nothing about plans, but every crate of the program is part of the key of the cache.
    registry.add_build("ovolo-lsp", ovolo_lsp::BUILD);
    registry.add_build("ovolo-quantize", ovolo_quantize::BUILD);
    registry
}

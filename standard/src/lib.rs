//! What ovolo ships, in one place: the registry with every backend of this repository, and the command line with
//! every command. The program `ovolo` is both.
//!
//! No other library crate depends on a backend's kernels, so that a change of a kernel compiles its crate and this one.

mod kernels;
mod lsp;

pub use kernels::Kernels;
pub use lsp::Lsp;

use ovolo::registry::Registry;
use ovolo_cli::CommandLine;

/// Returns the command line with a registry, and with every command of the program `ovolo`. A program of another crate
/// gives a registry with its additions, and adds its own commands.
pub fn command_line(registry: Registry) -> CommandLine {
    CommandLine::new(registry)
        .command::<Kernels>()
        .command::<ovolo_quantize::Quantize>()
        .command::<ovolo_train::Derivatives>()
        .command::<ovolo_train::Grad>()
        .command::<ovolo_train::Train>()
        .command::<Lsp>()
}

/// The registry that ovolo ships: its own ops, the backends `native`, `onednn`, `cuda`, `cublaslt` and `cudnn`, and ONNX's
/// operator `Gradient`.
///
/// # Panics
/// Never, because the names of the backends, of their ops and of operators differ.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry)
        .and_then(|()| ovolo_onednn::register(&mut registry))
        .and_then(|()| ovolo_cuda::register(&mut registry))
        .and_then(|()| ovolo_train::register(&mut registry))
        .expect("the names of the backends, of their ops and of operators differ");
    // The language server decides nothing about plans, but every crate of the program is part of the key of the cache.
    registry.add_build("ovolo-lsp", ovolo_lsp::BUILD);
    registry.add_build("ovolo-quantize", ovolo_quantize::BUILD);
    registry.add_build("ovolo-train", ovolo_train::BUILD);
    registry
}

//! What this machine has, as far as times of kernels depend on it.

use crate::backend::{self, Backend, features};
use crate::cost::Validators;

/// What the times of kernels on this machine depend on.
pub fn validators(threads: usize) -> Validators {
    let machine = vec![
        format!("ovolo {} times, format 4", env!("CARGO_PKG_VERSION")),
        format!("processor {}", features::processor()),
        format!("features {}", features::planned().join(" ")),
        format!("threads {threads}"),
    ];
    let library = |backend: &&dyn Backend| {
        let identity = backend.identity().ok()?.replace(['\n', '\t'], " ");
        Some((backend.name().to_owned(), identity))
    };
    Validators { machine, libraries: backend::BACKENDS.iter().filter_map(library).collect() }
}

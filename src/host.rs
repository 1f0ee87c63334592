//! The properties of this machine that the times of kernels depend on.

use crate::backend::{Backend, Backends, features};
use crate::cost::Validators;
use std::sync::Arc;

/// Returns what the times of kernels on this machine depend on: processor, instruction sets, threads and backends.
pub fn validators(threads: usize, backends: &Backends) -> Validators {
    let machine = vec![
        format!("ovolo {} times, format 4", env!("CARGO_PKG_VERSION")),
        format!("processor {}", features::processor()),
        format!("features {}", backends.planned_features().join(" ")),
        format!("threads {threads}"),
    ];
    let library = |(_, backend): (&str, &Arc<dyn Backend>)| {
        let identity = backend.identity().ok()?.replace(['\n', '\t'], " ");
        Some((backend.name().to_owned(), identity))
    };
    Validators { machine, libraries: backends.iter().filter_map(library).collect() }
}

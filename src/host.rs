//! What depends on the machine and its system: the properties that the times of kernels depend on, and freed memory.

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

/// Returns memory that was freed to the system, where the C library is glibc. A compilation makes and drops many small
/// parts, above all those of e-graphs. glibc would keep their memory for later allocations of each thread, and so
/// sessions of several sizes would hold what each of their compilations has needed.
pub(crate) fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function takes no pointers, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

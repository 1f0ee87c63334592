//! The module of a plan: each kernel once, and the parts of the prelude that the kernels use.

use super::kernel::{KernelJob, KernelSource};
use super::prelude;
use std::collections::BTreeMap;

/// Kernels that are compiled together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    kernels: BTreeMap<String, KernelSource>,
}

impl Module {
    /// Collects the kernels of some jobs.
    pub fn new<'a>(jobs: impl IntoIterator<Item = &'a KernelJob>) -> Self {
        let kernels = jobs.into_iter().flat_map(|job| &job.kernels);
        Self { kernels: kernels.map(|kernel| (kernel.name.clone(), kernel.clone())).collect() }
    }

    /// Returns the kernels, sorted by name.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = &KernelSource> {
        self.kernels.values()
    }

    /// Returns the text. It depends only on the kernels, and not on the names or the order of the plan.
    pub fn source(&self) -> String {
        let takes = |part: &str| self.kernels.values().any(|kernel| kernel.needs.contains(part));
        let mut source: String = prelude::text(takes).collect();
        for kernel in self.kernels.values() {
            source.push_str(&kernel.text);
        }
        source
    }
}

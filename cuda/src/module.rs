//! One module for what a plan needs: each kernel once, and the parts of the prelude that they take.

use super::kernel::{Job, Kernel};
use super::prelude;
use std::collections::BTreeMap;

/// Kernels that are compiled together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    kernels: BTreeMap<String, Kernel>,
}

impl Module {
    /// The kernels of some jobs.
    pub fn new<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let kernels = jobs.into_iter().flat_map(|job| &job.kernels);
        Self { kernels: kernels.map(|kernel| (kernel.name.clone(), kernel.clone())).collect() }
    }

    /// The kernels, sorted by name.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = &Kernel> {
        self.kernels.values()
    }

    /// The text: it depends on the kernels alone, not on the plan's names or order.
    pub fn source(&self) -> String {
        let takes = |part: &str| self.kernels.values().any(|kernel| kernel.needs.contains(part));
        let mut source: String = prelude::text(takes).collect();
        for kernel in self.kernels.values() {
            source.push_str(&kernel.text);
        }
        source
    }
}

//! The speeds of a machine, as measured by calibration.

use serde::{Deserialize, Serialize};

/// The speeds of a machine, with all threads of the plan working.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operations per second of the best matrix kernel, in `f32`.
    pub flops: f64,
    /// Bytes per second from memory.
    pub memory: f64,
    /// Bytes per second from the last-level cache.
    pub cache: f64,
    /// Seconds to start a kernel.
    pub start: f64,
    /// The number of `f32` elements in a vector of that matrix kernel. Kernels for narrower vectors compute less per
    /// instruction.
    pub lanes: usize,
}

impl Machine {
    /// An imaginary machine with round numbers, for snapshots.
    pub const NOMINAL: Self = Self { flops: 2.0e11, memory: 2.0e10, cache: 6.0e10, start: 1.0e-6, lanes: 16 };
}

impl Default for Machine {
    fn default() -> Self {
        Self::NOMINAL
    }
}

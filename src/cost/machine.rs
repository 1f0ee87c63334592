//! The speeds of a machine, as calibration finds them.

use serde::{Deserialize, Serialize};

/// The speeds of a machine, with all threads of the plan at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Float32 operations a second of the best matrix kernel.
    pub flops: f64,
    /// Bytes a second from memory.
    pub memory: f64,
    /// Bytes a second from the last cache.
    pub cache: f64,
    /// Seconds to start a kernel.
    pub start: f64,
    /// `f32` elements of a vector of that matrix kernel. Kernels for narrower ones do less at a time.
    pub lanes: usize,
}

impl Machine {
    /// A round machine that is nobody's: what snapshots use.
    pub const NOMINAL: Self = Self { flops: 2.0e11, memory: 2.0e10, cache: 6.0e10, start: 1.0e-6, lanes: 16 };
}

impl Default for Machine {
    fn default() -> Self {
        Self::NOMINAL
    }
}

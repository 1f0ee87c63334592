//! The sum of time and memory, for a choice that weighs both.

/// What the time of a plan and the host's memory come to together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The estimate of one run, in seconds.
    pub seconds: f64,
    /// The size of the host's arena, in bytes.
    pub arena: usize,
    /// Bytes of the constants that the host keeps beside it.
    pub constants: usize,
    /// Milliseconds that a mebibyte of either is worth.
    pub worth: f64,
    /// A lower bound of the sum for all plans within the limits, in seconds.
    pub bound: f64,
}

impl Objective {
    /// Returns the sum, in seconds.
    pub fn sum(&self) -> f64 {
        self.seconds + self.memory()
    }

    /// Returns the cost of the arena, in seconds.
    pub fn memory(&self) -> f64 {
        Self::memory_of(self.bytes(), self.worth)
    }

    /// Bytes of the arena and of the constants.
    pub fn bytes(&self) -> usize {
        self.arena + self.constants
    }

    /// Returns the cost of `bytes`, in seconds, at `worth` milliseconds per MiB.
    #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
    pub(in crate::stage) fn memory_of(bytes: usize, worth: f64) -> f64 {
        worth * 1e-3 * bytes as f64 / f64::from(1 << 20)
    }

    /// Returns whether it is proven that no plan has a lower sum.
    pub fn proven(&self) -> bool {
        self.sum() <= self.bound * (1.0 + ROUNDING)
    }
}

/// The largest relative difference between sums of the same numbers in different orders.
const ROUNDING: f64 = 1e-9;

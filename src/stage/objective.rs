//! The sum of time and memory, where a choice weighs both.

/// What the time of a plan and the host's memory come to together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The estimate of one run, in seconds.
    pub seconds: f64,
    /// Bytes of the host's arena.
    pub arena: usize,
    /// Bytes of the constants that the host keeps beside it.
    pub constants: usize,
    /// Milliseconds that a mebibyte of either is worth.
    pub worth: f64,
    /// No plan within the limits has a lower sum, in seconds.
    pub bound: f64,
}

impl Objective {
    /// The sum, in seconds.
    pub fn sum(&self) -> f64 {
        self.seconds + self.memory()
    }

    /// What the bytes are worth, in seconds.
    pub fn memory(&self) -> f64 {
        Self::memory_of(self.bytes(), self.worth)
    }

    /// Bytes of the arena and of the constants.
    pub fn bytes(&self) -> usize {
        self.arena + self.constants
    }

    /// What so many bytes are worth, in seconds, at so many milliseconds a mebibyte.
    #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
    pub(in crate::stage) fn memory_of(bytes: usize, worth: f64) -> f64 {
        worth * 1e-3 * bytes as f64 / f64::from(1 << 20)
    }

    /// Whether no plan has a lower sum.
    pub fn proven(&self) -> bool {
        self.sum() <= self.bound * (1.0 + ROUNDING)
    }
}

/// Sums of the same numbers in another order.
const ROUNDING: f64 = 1e-9;

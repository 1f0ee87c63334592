//! Disturbed prices, by which extractions find other good programs.
//!
//! An extraction with disturbed prices gives the program that would be the cheapest if the prices were wrong in this
//! way. With a larger spread, such programs differ more from the one that the model chooses. A disturbance depends
//! only on a seed and the text of a kernel's call, so it can be repeated.

use super::{CostModel, Query, key};
use crate::random::{EMPTY, STEP, hash, mix};

/// A disturbance of prices.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Noise {
    /// The seed of all factors.
    pub seed: u64,
    /// The standard deviation of the logarithm of the factors.
    pub spread: f64,
}

/// The spreads that the draws use in turn: kernels are mispriced by some percent, or by a factor.
const SPREADS: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// Returns the number that follows from a state.
fn next(state: u64) -> u64 {
    mix(state.wrapping_add(STEP))
}

impl Noise {
    /// Returns the draw with this number for a seed.
    pub fn draw(seed: u64, at: usize) -> Self {
        Self { seed: next(next(seed) ^ at as u64), spread: SPREADS[at % SPREADS.len()] }
    }

    /// Returns a disturbance whose spread is this many times as large.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn wider(self, times: usize) -> Self {
        Self { spread: self.spread * times as f64, ..self }
    }

    /// Returns the factor for a kernel. Half of its variance comes from the op, so that kernels of one op change
    /// together, and half from the call.
    pub(crate) fn factor(&self, op: &str, call: &str) -> f64 {
        let normal = (self.normal(op) + self.normal(call)) / std::f64::consts::SQRT_2;
        (self.spread * normal).exp()
    }

    /// Returns a number with a normal distribution (Box and Muller, 1958).
    #[allow(clippy::cast_precision_loss)] // 53 bits.
    fn normal(&self, text: &str) -> f64 {
        let hash = hash(EMPTY, text);
        let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (first, second) = (next(self.seed ^ hash), next(next(self.seed ^ hash)));
        (-2.0 * unit(first).ln()).sqrt() * (std::f64::consts::TAU * unit(second)).cos()
    }
}

/// A model that disturbs the choice of kernels, but reports their undisturbed seconds.
pub(crate) struct Noisy {
    model: Box<dyn CostModel>,
    noise: Noise,
}

impl Noisy {
    /// Disturbs the choices by a model.
    pub(crate) fn new(model: Box<dyn CostModel>, noise: Noise) -> Self {
        Self { model, noise }
    }
}

impl CostModel for Noisy {
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        self.model.seconds(query)
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.model.copy(bytes)
    }

    fn begin_batch(&self) -> bool {
        self.model.begin_batch()
    }

    fn end_batch(&self) {
        self.model.end_batch();
    }

    fn trouble(&self) -> Option<String> {
        self.model.trouble()
    }

    fn lacking(&self) -> String {
        self.model.lacking()
    }

    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        let weight = self.model.weight(query)?;
        Some(weight * self.noise.factor(query.call.op.name, &key(query)))
    }
}

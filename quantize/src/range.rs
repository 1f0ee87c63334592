//! The range of a tensor's values, and the scale and zero point of its levels.

use std::collections::BTreeMap;

/// The range of each value, by its name.
pub type Ranges = BTreeMap<String, Range>;

/// The number of steps between the lowest and the highest level of `u8`.
const STEPS: f32 = 255.0;

/// The values that a tensor takes. It contains zero, so that zero is a level: padding is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    low: f32,
    high: f32,
}

impl Range {
    /// Makes the smallest range with both values and zero. Both must be finite.
    pub fn new(low: f32, high: f32) -> Self {
        Self { low: low.min(0.0), high: high.max(0.0) }
    }

    /// Returns the lowest value, at most 0.
    pub fn low(self) -> f32 {
        self.low
    }

    /// Returns the highest value, at least 0.
    pub fn high(self) -> f32 {
        self.high
    }

    /// Returns the smallest range with all values of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Returns the distance between neighbouring levels: `(high - low) / 255`. A range of zero alone has scale 1.
    pub fn scale(self) -> f32 {
        let scale = self.high / STEPS - self.low / STEPS;
        if scale >= f32::MIN_POSITIVE { scale } else { 1.0 }
    }

    /// Returns the level of zero: `round(-low / scale)`, of 0 to 255.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn zero_point(self) -> u8 {
        (-self.low / self.scale()).round_ties_even().clamp(0.0, STEPS) as u8
    }
}

//! Intervals: the allowed values of a constant on a left side.

use std::fmt;

/// The numbers between two bounds, which are included. If the bounds are equal, it contains one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The smallest number; minus infinity if there is no lower bound.
    pub least: f64,
    /// The largest number; infinity if there is no upper bound.
    pub most: f64,
}

impl Interval {
    /// Returns the interval of one number.
    pub const fn point(value: f64) -> Self {
        Self { least: value, most: value }
    }

    /// Returns the number, if there is only one.
    pub fn value(self) -> Option<f64> {
        (self.least == self.most).then_some(self.least)
    }

    /// Returns whether a number is in the interval. Exporters round constants to `f32`, so this error is tolerated.
    pub fn holds(self, number: f64) -> bool {
        let slack = |bound: f64| if bound.is_finite() { 1e-6 * bound.abs() } else { 0.0 };
        number >= self.least - slack(self.least) && number <= self.most + slack(self.most)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.value() {
            return write!(f, "{value:?}");
        }
        if self.least.is_finite() {
            write!(f, "{:?}", self.least)?;
        }
        f.write_str("..")?;
        if self.most.is_finite() {
            write!(f, "{:?}", self.most)?;
        }
        Ok(())
    }
}

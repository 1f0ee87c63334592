//! A histogram of a tensor's values, which bounds the memory of calibration.

use super::Range;

/// The number of bins, as in TensorRT's calibration (S. Migacz, "8-bit Inference with TensorRT", GTC 2017).
pub const BINS: usize = 2048;

/// Counts of values in bins of equal width between the ends of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    range: Range,
    counts: Vec<u64>,
}

impl Histogram {
    /// Makes an empty histogram of [`BINS`] bins over a range.
    pub fn new(range: Range) -> Self {
        Self { range, counts: vec![0; BINS] }
    }

    /// Counts values. What lies outside of the range is counted in the first or the last bin.
    pub fn add(&mut self, values: impl IntoIterator<Item = f32>) {
        let (low, width) = (f64::from(self.range.low()), self.width());
        for value in values {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let bin = if width > 0.0 { ((f64::from(value) - low) / width).max(0.0) as usize } else { 0 };
            self.counts[bin.min(BINS - 1)] += 1;
        }
    }

    /// Returns the range that the bins cover.
    pub fn range(&self) -> Range {
        self.range
    }

    /// Returns the counts of the bins, from the lowest values to the highest.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the range that is left if a share of all values is cut off, half of it at either end. The result is
    /// rounded outwards to whole bins.
    pub fn without(&self, share: f64) -> Range {
        let total: u64 = self.counts.iter().sum();
        #[allow(clippy::cast_precision_loss)]
        let most = total as f64 * share / 2.0;
        let cut = |counts: &mut dyn Iterator<Item = &u64>| {
            let mut sum = 0;
            #[allow(clippy::cast_precision_loss)]
            counts
                .take_while(|count| {
                    sum += **count;
                    sum as f64 <= most
                })
                .count()
        };
        let (first, last) = (cut(&mut self.counts.iter()), cut(&mut self.counts.iter().rev()));
        if first + last >= BINS {
            return self.range;
        }
        self.bins(first, BINS - last)
    }

    /// Returns the range of the bins from one up to another, which is not included.
    fn bins(&self, from: usize, to: usize) -> Range {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        let edge = |bin: usize| (f64::from(self.range.low()) + self.width() * bin as f64) as f32;
        let low = if from == 0 { self.range.low() } else { edge(from) };
        let high = if to == BINS { self.range.high() } else { edge(to) };
        Range::new(low, high)
    }

    #[allow(clippy::cast_precision_loss)]
    fn width(&self) -> f64 {
        (f64::from(self.range.high()) - f64::from(self.range.low())) / BINS as f64
    }
}

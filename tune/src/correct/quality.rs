//! How well corrections predict kernels that they were not fitted to.

use super::{Corrections, TimedKernel};
use ovolo::cost::{median_error, spearman};

/// The quality of predictions for some kernels, before and after the corrections.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// The model or the table that was held out.
    pub name: String,
    /// The number of its kernels.
    pub kernels: usize,
    /// The median error relative to the times, of the price list alone and with corrections.
    pub error: [Option<f64>; 2],
    /// Spearman's rank correlation with the times, likewise.
    pub spearman: [Option<f64>; 2],
}

impl Quality {
    pub(super) fn new<'k>(
        name: &str,
        kernels: impl Iterator<Item = &'k TimedKernel>,
        corrections: &Corrections,
    ) -> Self {
        let (mut alone, mut corrected, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for kernel in kernels {
            alone.push(kernel.estimate());
            corrected.push(kernel.estimate() * corrections.factor(kernel));
            seen.push(kernel.seconds);
        }
        Self {
            name: name.to_owned(),
            kernels: seen.len(),
            error: [&alone, &corrected].map(|predicted| median_error(predicted, &seen)),
            spearman: [&alone, &corrected].map(|predicted| spearman(predicted, &seen)),
        }
    }
}

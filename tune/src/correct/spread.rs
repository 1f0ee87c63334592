//! How uncertain corrected prices are.

use super::{Corrections, FEWEST, Kind, TimesTable, kind};
use std::collections::BTreeMap;

/// The standard deviation of a normal distribution, as a multiple of the median distance from its middle.
const OF_NORMAL: f64 = 1.4826;

/// What corrections leave: the standard deviation of the logarithm of a time divided by its corrected price. It is estimated
/// by the median distance from 0, which a few odd kernels do not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spreads {
    /// That of each kind with enough kernels.
    pub kinds: BTreeMap<Kind, f64>,
    /// That of all kernels together; `None` without any.
    pub all: Option<f64>,
}

impl Spreads {
    /// Measures each table by corrections that were fitted to the others. A single table is measured by its own corrections,
    /// `fitted`, which makes it look better than others would.
    ///
    /// A table that is slower as a whole makes no kernel more uncertain against another one, so the middle of what is left
    /// of a table counts as 0.
    pub fn new(tables: &[TimesTable], fitted: &Corrections) -> Self {
        let mut kinds: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
        for (left_out, table) in tables.iter().enumerate() {
            let rest = (tables.len() > 1).then(|| Corrections::to(tables, |at, _| at != left_out));
            let corrections = rest.as_ref().unwrap_or(fitted);
            let left = |kernel| -> f64 {
                let kernel: &super::TimedKernel = kernel;
                (kernel.seconds / kernel.estimate() / corrections.factor(kernel)).ln()
            };
            let middle = median(table.kernels.iter().map(left).collect()).unwrap_or(0.0);
            for kernel in &table.kernels {
                kinds.entry(kind(kernel)).or_default().push((left(kernel) - middle).abs());
            }
        }
        let spread = |distances| median(distances).map(|middle| OF_NORMAL * middle);
        let all = spread(kinds.values().flatten().copied().collect());
        kinds.retain(|_, distances| distances.len() >= FEWEST);
        let kinds = kinds.into_iter().filter_map(|(kind, distances)| Some((kind, spread(distances)?)));
        Self { kinds: kinds.collect(), all }
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

//! A record of the kernels for which a cost model is asked while an e-graph is priced.

use crate::cost::{CostModel, FEATURES, FeatureValue, Query, key};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The features and the price of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedKernel {
    /// The features, in the order of [`FEATURES`].
    pub features: Vec<FeatureValue>,
    /// The price in seconds; `None` if the model has none.
    pub seconds: Option<f64>,
    /// Whether the price was measured; `None` if the model does not measure.
    pub measured: Option<bool>,
}

/// A cost model that records every kernel for which another model is asked.
pub(super) struct Recorder<'a> {
    model: &'a dyn CostModel,
    /// The kernels by the text of their calls, so that the order does not depend on the e-graph.
    kernels: Mutex<BTreeMap<String, PricedKernel>>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(model: &'a dyn CostModel) -> Self {
        Self { model, kernels: Mutex::default() }
    }

    /// Returns the kernels that were recorded.
    pub(crate) fn kernels(self) -> Vec<PricedKernel> {
        let kernels = self.kernels.into_inner().unwrap_or_else(PoisonError::into_inner);
        kernels.into_values().collect()
    }
}

impl CostModel for Recorder<'_> {
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        let seconds = self.model.seconds(query);
        let features = FEATURES.iter().map(|feature| feature.value(query)).collect();
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels
            .insert(key(query), PricedKernel { features, seconds, measured: self.model.is_measured(query) });
        seconds
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.model.copy(bytes)
    }
}

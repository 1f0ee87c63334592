//! Encodes features as numbers: sizes as logarithms, texts by their index among the known ones.

use super::Example;
use crate::cost::{FEATURES, FeatureValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The text features that are used. They have few values. The other text features follow from these, or are different
/// for every kernel.
const CATEGORIES: &[&str] = &["op", "implementation", "layout_in", "layout_second", "layout_out", "dtype"];

/// The numbers of a row besides the features.
pub(super) const DERIVED: usize = 5;

/// Encodes examples as rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Encoder {
    /// For each category, the texts that were seen, sorted.
    texts: Vec<Vec<String>>,
}

/// An example as numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The logarithms of sizes: the estimate, the model's constants, operations per byte, constants per result,
    /// channels per group, and each feature that is a number.
    pub numbers: Vec<f64>,
    /// For each category, the index of its text; `None` for a text that was not seen.
    pub categories: Vec<Option<usize>>,
}

impl Encoder {
    /// Collects the texts of some examples.
    pub(crate) fn new(examples: &[&Example]) -> Self {
        let seen = |category: &&str| {
            let texts: BTreeSet<String> =
                examples.iter().filter_map(|example| text(&example.features, category)).collect();
            texts.into_iter().collect()
        };
        Self { texts: CATEGORIES.iter().map(seen).collect() }
    }

    /// Returns the number of texts of each category.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = usize> {
        self.texts.iter().map(Vec::len)
    }

    /// Returns whether there is a list for each category.
    pub(crate) fn whole(&self) -> bool {
        self.texts.len() == CATEGORIES.len()
    }

    /// Returns the row of a kernel from its features, its seconds by the roofline, and the bytes of constants of its
    /// model.
    pub(crate) fn row(&self, features: &[FeatureValue], estimate: f64, constants: f64) -> Row {
        let mut numbers = vec![estimate.max(1e-12).ln(), constants.ln_1p()];
        let size = |name: &str| {
            let at = FEATURES.iter().position(|feature| feature.name == name);
            match at.and_then(|at| features.get(at)) {
                Some(FeatureValue::Number(number)) => number.max(0.0).ln_1p(),
                _ => 0.0,
            }
        };
        numbers.push(size("flops") - size("bytes"));
        numbers.push(size("bytes_const") - size("bytes_out"));
        numbers.push(size("in_1") - size("groups"));
        numbers.extend(features.iter().filter_map(|value| match value {
            FeatureValue::Number(number) => Some(number.max(0.0).ln_1p()),
            FeatureValue::Text(_) => None,
        }));
        let place =
            |(category, texts): (&&str, &Vec<String>)| texts.binary_search(&text(features, category)?).ok();
        Row { numbers, categories: CATEGORIES.iter().zip(&self.texts).map(place).collect() }
    }
}

fn text(features: &[FeatureValue], name: &str) -> Option<String> {
    let at = FEATURES.iter().position(|feature| feature.name == name)?;
    match features.get(at)? {
        FeatureValue::Text(text) => Some(text.clone()),
        FeatureValue::Number(_) => None,
    }
}

//! Features as numbers to learn from: sizes as logarithms, texts by their places among those that are known.

use super::Example;
use crate::cost::{FEATURES, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Texts with few values. All others follow from these, or tell every kernel apart.
const CATEGORIES: &[&str] = &["op", "implementation", "layout_in", "layout_second", "layout_out", "dtype"];

/// Numbers of a row beside the features.
pub(super) const DERIVED: usize = 5;

/// What turns an example into a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Encoder {
    /// For each category the texts that were seen, sorted.
    texts: Vec<Vec<String>>,
}

/// An example in numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The logarithms of sizes: the estimate, the model's constants, operations a byte, constants to results,
    /// channels of a group, and each feature that is a number.
    pub numbers: Vec<f64>,
    /// For each category the place of its text; `None` for one that was not seen.
    pub categories: Vec<Option<usize>>,
}

impl Encoder {
    /// The texts of some examples.
    pub(crate) fn new(examples: &[&Example]) -> Self {
        let seen = |category: &&str| {
            let texts: BTreeSet<String> =
                examples.iter().filter_map(|example| text(&example.features, category)).collect();
            texts.into_iter().collect()
        };
        Self { texts: CATEGORIES.iter().map(seen).collect() }
    }

    /// How many texts each category has.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = usize> {
        self.texts.iter().map(Vec::len)
    }

    /// Whether there is a list for each category.
    pub(crate) fn whole(&self) -> bool {
        self.texts.len() == CATEGORIES.len()
    }

    /// The row of a kernel by its features, the seconds that the roofline gives it, and the bytes of
    /// constants in its model.
    pub(crate) fn row(&self, features: &[Value], estimate: f64, constants: f64) -> Row {
        let mut numbers = vec![estimate.max(1e-12).ln(), constants.ln_1p()];
        let size = |name: &str| {
            let at = FEATURES.iter().position(|feature| feature.name == name);
            match at.and_then(|at| features.get(at)) {
                Some(Value::Number(number)) => number.max(0.0).ln_1p(),
                _ => 0.0,
            }
        };
        numbers.push(size("flops") - size("bytes"));
        numbers.push(size("bytes_const") - size("bytes_out"));
        numbers.push(size("in_1") - size("groups"));
        numbers.extend(features.iter().filter_map(|value| match value {
            Value::Number(number) => Some(number.max(0.0).ln_1p()),
            Value::Text(_) => None,
        }));
        let place =
            |(category, texts): (&&str, &Vec<String>)| texts.binary_search(&text(features, category)?).ok();
        Row { numbers, categories: CATEGORIES.iter().zip(&self.texts).map(place).collect() }
    }
}

fn text(features: &[Value], name: &str) -> Option<String> {
    let at = FEATURES.iter().position(|feature| feature.name == name)?;
    match features.get(at)? {
        Value::Text(text) => Some(text.clone()),
        Value::Number(_) => None,
    }
}

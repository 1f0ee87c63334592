//! The model `learned`: predicts seconds from a kernel's features, after it was fitted on timed kernels.
//!
//! It learns the logarithm of the time divided by the roofline's estimate, so that a kernel unlike all seen ones gets
//! a price near its roofline. A prediction stays within the range of ratios that were seen. A fit is plain data, with
//! what it depends on and how well it predicts models that were held out.

pub(crate) mod boost;
pub(crate) mod encode;
pub(crate) mod linear;

use super::{
    CostModel, FEATURES, FeatureValue, Machine, PriceList, PriceModel, Query, median_error, spearman,
};
use boost::Boosted;
use encode::{DERIVED, Encoder, Row};
use linear::Linear;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A timed kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The model that contains it.
    pub model: String,
    /// The text of its call.
    pub call: String,
    /// Its features, in the order of [`FEATURES`].
    pub features: Vec<FeatureValue>,
    /// The seconds that the roofline of the machine predicts.
    pub estimate: f64,
    /// The bytes of the model's constants; zero if the kernel reads none.
    pub constants: usize,
    /// The seconds that it took.
    pub seconds: f64,
    /// Whether these are seconds within plans, which count fully. Otherwise they are its time alone, or its likely
    /// time within plans, which is estimated from other kernels of its op.
    pub within_plans: bool,
}

/// The names of the learners.
pub const LEARNERS: &[&str] = &["boosted", "linear"];

/// The weight of a time that was not measured within plans. Times that were differ from the likely ones by a tenth in
/// the median. With weights from 0.002 to 0.3, the plans chosen for mobilenet_v2 and efficientnet_b0, held out, are
/// better than with full weight.
const ALONE: f64 = 0.1;

/// The fewest examples that are worth a fit.
const FEWEST: usize = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Learner {
    Boosted(Boosted),
    Linear(Linear),
}

impl Learner {
    fn name(&self) -> &'static str {
        match self {
            Self::Boosted(_) => LEARNERS[0],
            Self::Linear(_) => LEARNERS[1],
        }
    }

    fn predict(&self, row: &Row) -> f64 {
        match self {
            Self::Boosted(boosted) => boosted.predict(row),
            Self::Linear(line) => line.predict(row),
        }
    }
}

/// The quality of a learner on a model that it was not fitted on; no kernel of that model was in the examples either.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// The name of the model; `all` for all models together.
    pub model: String,
    /// The number of its kernels.
    pub kernels: usize,
    /// Spearman's rank correlation of predictions and times; `None` if there is no order.
    pub spearman: Option<f64>,
    /// The median error of the predictions, relative to the times.
    pub error: Option<f64>,
}

/// The reason why nothing can be learned from some times, or why a fitted model cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// No learner has this name.
    #[error("there is no learner `{name}`: there are {}", LEARNERS.join(", "))]
    Learner {
        /// The name.
        name: String,
    },
    /// Too few kernels have times.
    #[error(
        "{count} kernels with times are too few to learn from, {least} are needed: run `ovolo tune MODEL`"
    )]
    TooFew {
        /// The number of kernels with times.
        count: usize,
        /// The number that is needed.
        least: usize,
    },
    /// The text is not a fitted model.
    #[error("this is not a model that `ovolo fit` has written: {0}")]
    Text(String),
    /// It was fitted on another machine, or by another version.
    #[error(
        "the model was fitted on another machine or by another version: it has `{found}` where `{expected}` is; \
         run `ovolo fit` here"
    )]
    Machine {
        /// The line of its own machine.
        found: String,
        /// The line of this machine.
        expected: String,
    },
    /// It was fitted on other features.
    #[error(
        "the model was fitted on other features: it has `{found}` where `{expected}` is; run `ovolo fit` again"
    )]
    Features {
        /// A feature that the fit has.
        found: String,
        /// The feature that is there now.
        expected: String,
    },
    /// It corrects the predictions of other price lists.
    #[error(
        "the model corrects other price lists: it has {} where {} is; run `ovolo fit` again",
        listed(found),
        listed(expected)
    )]
    Prices {
        /// A list that the fit corrects, with its checksum; empty if it has no further list.
        found: String,
        /// The list that is there now; empty if there is no further list.
        expected: String,
    },
    /// Its parts do not fit together.
    #[error("the model is damaged: run `ovolo fit` again")]
    Damaged,
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The lines on which all times depend: version, processor, threads.
    pub head: Vec<String>,
    /// The libraries of the backends whose kernels it was fitted on, by backend.
    pub libraries: BTreeMap<String, String>,
    features: Vec<String>,
    /// The machine whose roofline it corrects.
    machine: Machine,
    /// The price lists that it corrects: names and checksums.
    pub prices: Vec<String>,
    encoder: Encoder,
    learner: Learner,
    /// The smallest and the largest logarithm of a ratio that was seen.
    range: (f64, f64),
    /// The number of kernels on which it was fitted.
    pub kernels: usize,
    /// The quality on models that were held out; empty if there was only one model.
    pub held_out: Vec<HeldOut>,
}

impl Fit {
    /// Fits a learner on all examples, and also without each model, to measure its quality on that model.
    ///
    /// # Errors
    /// The learner does not exist, or there are too few examples.
    pub fn new(
        learner: &str,
        head: Vec<String>,
        mut libraries: BTreeMap<String, String>,
        machine: Machine,
        prices: &PriceList,
        examples: &[Example],
    ) -> Result<Self, FitError> {
        if !LEARNERS.contains(&learner) {
            return Err(FitError::Learner { name: learner.to_owned() });
        }
        let all: Vec<&Example> =
            examples.iter().filter(|one| one.seconds > 0.0 && one.estimate > 0.0).collect();
        if all.len() < FEWEST {
            return Err(FitError::TooFew { count: all.len(), least: FEWEST });
        }
        let (encoder, fitted, range) = fit(learner, &all);
        let features = FEATURES.iter().map(|feature| feature.name.to_owned()).collect();
        let held_out = held_out(learner, &all);
        let seen: BTreeSet<&str> =
            all.iter().filter_map(|one| one.call.split_once('.')).map(|(name, _)| name).collect();
        libraries.retain(|backend, _| seen.contains(backend.as_str()));
        let kernels = all.len();
        let prices = price_lists(prices);
        let learner = fitted;
        Ok(Self { head, libraries, features, machine, prices, encoder, learner, range, kernels, held_out })
    }

    /// Returns the name of the learner.
    pub fn learner(&self) -> &'static str {
        self.learner.name()
    }

    /// Returns the text that `Fit::read` reads.
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("a fit is plain data") + "\n"
    }

    /// Returns the backends on whose kernels a fit was made. It has prices only for them.
    ///
    /// # Errors
    /// The text is not a fit.
    pub(crate) fn backends(text: &str) -> Result<BTreeSet<String>, FitError> {
        Ok(Self::parse(text)?.libraries.into_keys().collect())
    }

    fn parse(text: &str) -> Result<Self, FitError> {
        serde_json::from_str(text).map_err(|error| FitError::Text(error.to_string()))
    }

    /// Reads a fit for the machine that `head` describes, with these libraries by backend. Libraries of the fit may
    /// be absent here. The price lists must be those that the fit corrects.
    ///
    /// # Errors
    /// The text is not a fit, or it is one of another machine, another version, or other price lists or features.
    pub(crate) fn read(
        text: &str,
        head: &[String],
        libraries: &BTreeMap<String, String>,
        prices: &PriceList,
    ) -> Result<Self, FitError> {
        let fit = Self::parse(text)?;
        let other = fit.libraries.iter().find_map(|(backend, found)| {
            let expected = libraries.get(backend).filter(|expected| *expected != found)?;
            Some((found.as_str(), expected.as_str()))
        });
        if let Some((found, expected)) = differs(&fit.head, head).or(other) {
            return Err(FitError::Machine { found: found.to_owned(), expected: expected.to_owned() });
        }
        let features: Vec<String> = FEATURES.iter().map(|feature| feature.name.to_owned()).collect();
        if let Some((found, expected)) = differs(&fit.features, &features) {
            return Err(FitError::Features { found: found.to_owned(), expected: expected.to_owned() });
        }
        if let Some((found, expected)) = differs(&fit.prices, &price_lists(prices)) {
            return Err(FitError::Prices { found: found.to_owned(), expected: expected.to_owned() });
        }
        let numbers = DERIVED + FEATURES.iter().filter(|feature| feature.is_number()).count();
        let takes = match &fit.learner {
            Learner::Boosted(boosted) => boosted.takes(numbers),
            Learner::Linear(line) => line.takes(numbers),
        };
        let (least, most) = fit.range;
        let ranged = least.is_finite() && most.is_finite() && least <= most;
        if takes && ranged && fit.encoder.whole() { Ok(fit) } else { Err(FitError::Damaged) }
    }

    pub(crate) fn seconds(&self, features: &[FeatureValue], estimate: f64, constants: usize) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let row = self.encoder.row(features, estimate, constants as f64);
        estimate * self.learner.predict(&row).clamp(self.range.0, self.range.1).exp()
    }
}

/// Returns a line of a list in quotes, or `nothing`.
fn listed(line: &str) -> String {
    if line.is_empty() { "nothing".to_owned() } else { format!("`{line}`") }
}

/// Returns the name and the checksum of each file of a price list.
fn price_lists(prices: &PriceList) -> Vec<String> {
    prices.checksums().map(|(name, checksum)| format!("{name} {checksum}")).collect()
}

/// Returns the first lines in which two lists differ; a missing line is empty.
fn differs<'a>(found: &'a [String], expected: &'a [String]) -> Option<(&'a str, &'a str)> {
    let line = |lines: &'a [String], at: usize| lines.get(at).map_or("", String::as_str);
    (0..found.len().max(expected.len()))
        .map(|at| (line(found, at), line(expected, at)))
        .find(|(found, expected)| found != expected)
}

fn fit(learner: &str, examples: &[&Example]) -> (Encoder, Learner, (f64, f64)) {
    let encoder = Encoder::new(examples);
    #[allow(clippy::cast_precision_loss)]
    let row = |one: &&Example| encoder.row(&one.features, one.estimate, one.constants as f64);
    let rows: Vec<Row> = examples.iter().map(row).collect();
    let targets: Vec<f64> = examples.iter().map(|one| (one.seconds / one.estimate).ln()).collect();
    let sizes: Vec<usize> = encoder.sizes().collect();
    let fitted = if learner == LEARNERS[0] {
        // A plan takes the sum of its kernels' times, so long kernels count for more. Their weight grows only with
        // the square root, because the times of short kernels are less exact.
        let weight = |one: &&Example| one.seconds.sqrt() * if one.within_plans { 1.0 } else { ALONE };
        let weights: Vec<f64> = examples.iter().map(weight).collect();
        Learner::Boosted(Boosted::fit(&rows, &targets, &weights, &sizes))
    } else {
        Learner::Linear(Linear::fit(&rows, &targets, sizes))
    };
    let range = targets
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| (least.min(*one), most.max(*one)));
    (encoder, fitted, range)
}

fn held_out(learner: &str, examples: &[&Example]) -> Vec<HeldOut> {
    let models: BTreeSet<&str> = examples.iter().map(|one| one.model.as_str()).collect();
    // The fits run in parallel threads.
    let all: Vec<Option<(Vec<f64>, Vec<f64>)>> = std::thread::scope(|scope| {
        let fits: Vec<_> =
            models.iter().map(|model| scope.spawn(|| without(model, learner, examples))).collect();
        fits.into_iter().map(|fit| fit.join().expect("fitting does not panic")).collect()
    });
    let (mut found, mut predicted, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for (model, (predictions, times)) in
        models.into_iter().zip(all).filter_map(|(model, fit)| Some((model, fit?)))
    {
        found.push(score(model, &predictions, &times));
        predicted.extend(predictions);
        seen.extend(times);
    }
    if found.len() > 1 {
        found.push(score("all", &predicted, &seen));
    }
    found
}

/// Returns the seconds of a model's kernels, predicted by a fit on the other models, and their times; `None` if there
/// are too few other examples.
fn without(model: &str, learner: &str, examples: &[&Example]) -> Option<(Vec<f64>, Vec<f64>)> {
    let (test, rest): (Vec<&Example>, Vec<&Example>) =
        examples.iter().copied().partition(|one| one.model == model);
    let calls: BTreeSet<&str> = test.iter().map(|one| one.call.as_str()).collect();
    let train: Vec<&Example> = rest.into_iter().filter(|one| !calls.contains(one.call.as_str())).collect();
    if train.len() < FEWEST {
        return None;
    }
    let (encoder, learner, range) = fit(learner, &train);
    #[allow(clippy::cast_precision_loss)]
    let seconds = |one: &&Example| {
        let row = encoder.row(&one.features, one.estimate, one.constants as f64);
        one.estimate * learner.predict(&row).clamp(range.0, range.1).exp()
    };
    Some((test.iter().map(seconds).collect(), test.iter().map(|one| one.seconds).collect()))
}

fn score(model: &str, predicted: &[f64], seen: &[f64]) -> HeldOut {
    HeldOut {
        model: model.to_owned(),
        kernels: seen.len(),
        spearman: spearman(predicted, seen),
        error: median_error(predicted, seen),
    }
}

/// The model `learned`.
#[derive(Clone, Debug)]
pub struct Learned {
    fit: Arc<Fit>,
    roofline: PriceModel,
    constants: usize,
}

impl Learned {
    /// Prices the kernels of a model with this number of bytes of constants, by a fit and the price list that it
    /// corrects.
    pub(crate) fn new(fit: Arc<Fit>, prices: Arc<PriceList>, constants: usize) -> Self {
        let roofline = PriceModel::new("roofline", fit.machine, prices).among(constants);
        Self { fit, roofline, constants }
    }
}

impl CostModel for Learned {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        // It has seen no kernel of this backend, and would only guess.
        if query.call.op.backend().is_none_or(|backend| !self.fit.libraries.contains_key(backend)) {
            return Some(f64::INFINITY);
        }
        let estimate = self.roofline.seconds(query)?;
        if query.contract.view_of.is_some() || estimate <= 0.0 {
            return Some(0.0);
        }
        let features: Vec<FeatureValue> = FEATURES.iter().map(|feature| feature.value(query)).collect();
        let constants = if query.constant.contains(&true) { self.constants } else { 0 };
        Some(self.fit.seconds(&features, estimate, constants)).filter(|seconds| seconds.is_finite())
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.roofline.copy(bytes)
    }

    fn lacking(&self) -> String {
        "its model gives no finite time for them: run `ovolo fit` again".to_owned()
    }
}

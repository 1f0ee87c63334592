//! A small regression tree: regimes, each with a factor.

use super::table::COLUMNS;
use std::collections::BTreeSet;

// The numbers below were chosen by the errors of models that were held out: depths from 5 to 12, leaves of 4 to 12 and
// gains from 0.0002 to 0.003 differ by less than a hundredth in them.

/// The most questions from the root to a leaf.
const DEPTH: usize = 8;
/// The fewest samples of a leaf.
const LEAF: usize = 8;
/// A leaf has kernels of at least so many models, so that it knows no single network.
const MODELS: usize = 2;
/// The weight, in samples of mean weight, with which a leaf is drawn to the factor of the regime around it.
const PENALTY: f64 = 3.0;
/// A question is asked if it explains at least this part of what all samples of the kind depart from their mean.
const LEAST_GAIN: f64 = 0.002;
/// The most limits that are tried for a column.
const LIMITS: usize = 40;
/// Factors lie between this number and its reciprocal.
const LARGEST: f64 = 8.0;

/// A timed kernel of a kind.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    pub model: &'a str,
    /// The values of the columns.
    pub values: &'a [f64],
    /// The logarithm of its seconds divided by its estimate.
    pub target: f64,
    pub weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// The factor, and the number of samples.
    Leaf(f64, usize),
    /// The column, the limit, and the trees for values below the limit and for others.
    Split(usize, f64, Box<[Tree; 2]>),
}

/// The weighted sums of some samples.
#[derive(Clone, Copy, Default)]
struct Sums {
    weight: f64,
    target: f64,
    square: f64,
    count: usize,
}

impl Sums {
    fn add(&mut self, sample: &Sample<'_>) {
        self.weight += sample.weight;
        self.target += sample.weight * sample.target;
        self.square += sample.weight * sample.target * sample.target;
        self.count += 1;
    }

    fn of(samples: &[Sample<'_>]) -> Self {
        let mut sums = Self::default();
        samples.iter().for_each(|sample| sums.add(sample));
        sums
    }

    /// Returns the sum of the squared distances from the mean.
    fn spread(&self) -> f64 {
        if self.weight > 0.0 { self.square - self.target * self.target / self.weight } else { 0.0 }
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            weight: self.weight - other.weight,
            target: self.target - other.target,
            square: self.square - other.square,
            count: self.count - other.count,
        }
    }
}

impl Tree {
    /// Fits a tree to samples.
    #[allow(clippy::cast_precision_loss)] // Samples are few.
    pub fn fit(samples: Vec<Sample<'_>>) -> Self {
        let sums = Sums::of(&samples);
        let penalty = PENALTY * sums.weight / sums.count.max(1) as f64;
        grow(samples, DEPTH, sums.spread() * LEAST_GAIN, penalty, 0.0)
    }

    /// Returns the factor for a kernel with these values.
    pub fn factor(&self, values: &[f64]) -> f64 {
        match self {
            Self::Leaf(factor, _) => *factor,
            Self::Split(column, limit, parts) => parts[usize::from(values[*column] >= *limit)].factor(values),
        }
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> usize {
        match self {
            Self::Leaf(..) => 1,
            Self::Split(_, _, parts) => parts.iter().map(Self::leaves).sum(),
        }
    }
}

/// Grows a tree. `around` is the logarithm of the factor of the regime around these samples.
fn grow(samples: Vec<Sample<'_>>, depth: usize, least: f64, penalty: f64, around: f64) -> Tree {
    let sums = Sums::of(&samples);
    let mean = (sums.target + penalty * around) / (sums.weight + penalty);
    let found = if depth > 0 { split(&samples, &sums, least) } else { None };
    let Some((column, limit)) = found else {
        let limit = LARGEST.ln();
        return Tree::Leaf(mean.clamp(-limit, limit).exp(), samples.len());
    };
    let (above, below): (Vec<_>, Vec<_>) =
        samples.into_iter().partition(|sample| sample.values[column] >= limit);
    let part = |samples| grow(samples, depth - 1, least, penalty, mean);
    Tree::Split(column, limit, Box::new([part(below), part(above)]))
}

/// Returns the column and the limit that explain most, if it is at least `least`.
fn split(samples: &[Sample<'_>], all: &Sums, least: f64) -> Option<(usize, f64)> {
    let mut best: Option<(f64, usize, f64)> = None;
    for column in 0..COLUMNS.len() {
        let mut sorted: Vec<&Sample<'_>> = samples.iter().collect();
        sorted.sort_by(|a, b| a.values[column].total_cmp(&b.values[column]));
        let step = (samples.len() / LIMITS).max(1);
        let (mut below, mut tried) = (Sums::default(), 0);
        for at in 1..sorted.len() {
            below.add(sorted[at - 1]);
            let (low, high) = (sorted[at - 1].values[column], sorted[at].values[column]);
            if low >= high || at < LEAF || sorted.len() - at < LEAF || at < tried + step {
                continue;
            }
            tried = at;
            let gain = all.spread() - below.spread() - all.without(&below).spread();
            if gain < least.max(best.map_or(0.0, |(gain, ..)| gain)) {
                continue;
            }
            if varied(&sorted[..at]) && varied(&sorted[at..]) {
                best = Some((gain, column, between(low, high)));
            }
        }
    }
    best.map(|(_, column, limit)| (column, limit))
}

/// Returns whether the samples are of enough models.
fn varied(samples: &[&Sample<'_>]) -> bool {
    let mut seen = BTreeSet::new();
    samples.iter().any(|sample| {
        seen.insert(sample.model);
        seen.len() >= MODELS
    })
}

/// Returns a number above `low` and at most `high` with as few figures as possible, near their geometric mean.
fn between(low: f64, high: f64) -> f64 {
    let middle = if low > 0.0 { (low * high).sqrt() } else { f64::midpoint(low, high) };
    let rounded = |figures: usize| format!("{middle:.figures$e}").parse::<f64>().unwrap_or(middle);
    (0..6).map(rounded).find(|limit| low < *limit && *limit <= high).unwrap_or(high)
}

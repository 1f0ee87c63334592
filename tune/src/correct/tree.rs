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
    pub fn fit(samples: &[Sample<'_>]) -> Self {
        let node = Node::root(samples);
        let sums = node.sums(samples);
        let penalty = PENALTY * sums.weight / sums.count.max(1) as f64;
        grow(samples, node, DEPTH, sums.spread() * LEAST_GAIN, penalty, 0.0)
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

/// The samples of a regime, by their positions. Each column is sorted once, before the first question: what is sorted stays so
/// when it is divided.
struct Node {
    /// In the order in which they were given.
    all: Vec<usize>,
    /// By the values of each column.
    sorted: Vec<Vec<usize>>,
}

impl Node {
    fn root(samples: &[Sample<'_>]) -> Self {
        let all: Vec<usize> = (0..samples.len()).collect();
        let by = |column: usize| {
            let mut sorted = all.clone();
            sorted.sort_by(|a, b| samples[*a].values[column].total_cmp(&samples[*b].values[column]));
            sorted
        };
        Self { sorted: (0..COLUMNS.len()).map(by).collect(), all }
    }

    fn sums(&self, samples: &[Sample<'_>]) -> Sums {
        let mut sums = Sums::default();
        self.all.iter().for_each(|at| sums.add(&samples[*at]));
        sums
    }

    /// Divides the samples into those that are not above and those that are.
    fn divide(self, above: impl Fn(usize) -> bool) -> [Self; 2] {
        let part = |list: Vec<usize>| list.into_iter().partition(|at| above(*at));
        let (all, other): (Vec<_>, Vec<_>) = part(self.all);
        let (sorted, others) = self.sorted.into_iter().map(part).unzip();
        [Self { all: other, sorted: others }, Self { all, sorted }]
    }

    /// Returns the column and the limit that explain most, if it is at least `least`.
    fn split(&self, samples: &[Sample<'_>], all: &Sums, least: f64) -> Option<(usize, f64)> {
        let mut best: Option<(f64, usize, f64)> = None;
        let step = (self.all.len() / LIMITS).max(1);
        for (column, sorted) in self.sorted.iter().enumerate() {
            let value = |at: usize| samples[sorted[at]].values[column];
            let (mut below, mut tried) = (Sums::default(), 0);
            for at in 1..sorted.len() {
                below.add(&samples[sorted[at - 1]]);
                let (low, high) = (value(at - 1), value(at));
                if low >= high || at < LEAF || sorted.len() - at < LEAF || at < tried + step {
                    continue;
                }
                tried = at;
                let gain = all.spread() - below.spread() - all.without(&below).spread();
                if gain < least.max(best.map_or(0.0, |(gain, ..)| gain)) {
                    continue;
                }
                if varied(samples, &sorted[..at]) && varied(samples, &sorted[at..]) {
                    best = Some((gain, column, between(low, high)));
                }
            }
        }
        best.map(|(_, column, limit)| (column, limit))
    }
}

/// Grows a tree. `around` is the logarithm of the factor of the regime around these samples.
fn grow(samples: &[Sample<'_>], node: Node, depth: usize, least: f64, penalty: f64, around: f64) -> Tree {
    let sums = node.sums(samples);
    let mean = (sums.target + penalty * around) / (sums.weight + penalty);
    let found = if depth > 0 { node.split(samples, &sums, least) } else { None };
    let Some((column, limit)) = found else {
        let limit = LARGEST.ln();
        return Tree::Leaf(mean.clamp(-limit, limit).exp(), node.all.len());
    };
    let parts = node.divide(|at| samples[at].values[column] >= limit);
    let part = |node| grow(samples, node, depth - 1, least, penalty, mean);
    Tree::Split(column, limit, Box::new(parts.map(part)))
}

/// Returns whether the samples at these positions are of enough models.
fn varied(samples: &[Sample<'_>], places: &[usize]) -> bool {
    let mut seen = BTreeSet::new();
    places.iter().any(|at| {
        seen.insert(samples[*at].model);
        seen.len() >= MODELS
    })
}

/// Returns a number above `low` and at most `high` with as few figures as possible, near their geometric mean.
fn between(low: f64, high: f64) -> f64 {
    let middle = if low > 0.0 { (low * high).sqrt() } else { f64::midpoint(low, high) };
    let rounded = |figures: usize| format!("{middle:.figures$e}").parse::<f64>().unwrap_or(middle);
    (0..6).map(rounded).find(|limit| low < *limit && *limit <= high).unwrap_or(high)
}

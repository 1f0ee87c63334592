//! Regression trees, each fitted to the errors of those before it (gradient boosting with squared errors; Friedman:
//! Greedy Function Approximation, 2001), over values in bins (Ke et al.: LightGBM, 2017).
//!
//! The number for a text of a category is the mean of the targets with this text; for a rare text it is closer to the
//! mean of all. Each tree sees a part of the rows and of the columns, by a fixed seed. The learner is implemented
//! here because it is short and gives the same results on every machine. Of the crates that have one, `gbdt` and
//! `forust-ml` are no longer maintained, `perpetual` decides itself when to stop, and `smartcore` sorts every column
//! at every node and adds fifteen crates.

use super::encode::Row;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// The number of tree sequences, which are fitted on different random rows and columns; the prediction is their mean
/// (Breiman: Bagging Predictors, 1996). An extraction that takes the cheapest of many kernels mostly takes those that
/// are predicted too low, and a mean has smaller errors.
const BAGS: usize = 4;
/// The trees of a sequence, and the share of each prediction that is added.
const TREES: usize = 400;
const RATE: f64 = 0.06;
/// The largest depth of a tree.
const DEPTH: usize = 8;
/// The fewest rows of a leaf. It is 12 and not 5, because of the plans that each chose for four models that were held
/// out.
const LEAF: usize = 12;
/// The number of rows with the mean value that are added to each leaf.
const PENALTY: f64 = 1.0;
/// The same for a text of a category.
const RARE: f64 = 5.0;
/// The number of bins of a column.
const BINS: usize = 64;
/// Of ten rows and of ten columns, the numbers that a tree sees.
const SEEN: [usize; 2] = [7, 6];

/// The fitted trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Boosted {
    numbers: usize,
    mean: f64,
    /// For each category, the number for each of its texts.
    texts: Vec<Vec<f64>>,
    trees: Vec<Vec<Node>>,
}

/// A node of a tree. Nodes refer to each other by index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Node {
    /// The column, the limit, and the nodes for values up to the limit and above it.
    Ask(usize, f64, [usize; 2]),
    Leaf(f64),
}

impl Boosted {
    /// Fits rows to targets with weights; only the ratios of weights matter. `sizes` are the numbers of texts of the
    /// categories.
    #[allow(clippy::cast_precision_loss)] // Rows are few.
    pub(crate) fn fit(rows: &[Row], targets: &[f64], weights: &[f64], sizes: &[usize]) -> Self {
        let scale = rows.len() as f64 / weights.iter().sum::<f64>();
        let weights: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let text = |category: usize, place: usize| {
            let of = rows.iter().zip(targets).filter(|(row, _)| row.categories[category] == Some(place));
            let (count, sum) = of.fold((0.0, 0.0), |(count, sum), (_, y)| (count + 1.0, sum + y - mean));
            sum / (count + RARE)
        };
        let texts: Vec<Vec<f64>> = sizes
            .iter()
            .enumerate()
            .map(|(category, size)| (0..*size).map(|place| text(category, place)).collect())
            .collect();
        let numbers = rows.first().map_or(0, |row| row.numbers.len());
        let mut fitted = Self { numbers, mean, texts, trees: Vec::new() };
        let values: Vec<Vec<f64>> = rows.iter().map(|row| fitted.values(row)).collect();
        let grid = Grid::new(&values);
        let mut random = Random(0x6f76_6f6c_6f00);
        let mut rest = Vec::new();
        for tree in 0..BAGS * TREES {
            if tree % TREES == 0 {
                rest = targets.iter().map(|target| target - mean).collect();
            }
            let seen: Vec<usize> = (0..rows.len()).filter(|_| random.below(10) < SEEN[0]).collect();
            let columns: Vec<usize> = (0..grid.limits.len()).filter(|_| random.below(10) < SEEN[1]).collect();
            let mut tree = grow(&grid, &columns, seen, &Rest { errors: &rest, weights: &weights });
            for (values, rest) in values.iter().zip(&mut rest) {
                *rest -= descend(&tree, values);
            }
            for node in &mut tree {
                if let Node::Leaf(value) = node {
                    *value /= BAGS as f64;
                }
            }
            fitted.trees.push(tree);
        }
        fitted
    }

    /// Returns the prediction for a row.
    pub(crate) fn predict(&self, row: &Row) -> f64 {
        let values = self.values(row);
        self.mean + self.trees.iter().map(|tree| descend(tree, &values)).sum::<f64>()
    }

    /// Returns whether it accepts rows with this number of numbers, and every path in its trees ends in a leaf.
    pub(crate) fn takes(&self, numbers: usize) -> bool {
        let columns = self.numbers + self.texts.len();
        // Children come after their parents, so that every path ends.
        let sound = |(at, node): (usize, &Node), length: usize| match node {
            Node::Leaf(_) => true,
            Node::Ask(column, _, next) => {
                *column < columns && next.iter().all(|next| (at + 1..length).contains(next))
            }
        };
        let whole =
            |tree: &Vec<Node>| !tree.is_empty() && tree.iter().enumerate().all(|one| sound(one, tree.len()));
        self.numbers == numbers && self.trees.iter().all(whole)
    }

    fn values(&self, row: &Row) -> Vec<f64> {
        let value = |(place, values): (&Option<usize>, &Vec<f64>)| {
            place.and_then(|place| values.get(place).copied()).unwrap_or(0.0)
        };
        row.numbers.iter().copied().chain(row.categories.iter().zip(&self.texts).map(value)).collect()
    }
}

fn descend(tree: &[Node], values: &[f64]) -> f64 {
    let mut at = 0;
    loop {
        match &tree[at] {
            Node::Leaf(value) => return *value,
            Node::Ask(column, limit, next) => at = next[usize::from(values[*column] > *limit)],
        }
    }
}

/// The errors that are left, by row.
struct Rest<'a> {
    errors: &'a [f64],
    weights: &'a [f64],
}

impl Rest<'_> {
    /// Returns the weighted sum of the errors and the sum of the weights.
    fn sums(&self, rows: &[usize]) -> (f64, f64) {
        let add = |(sum, weight): (f64, f64), row: &usize| {
            (sum + self.weights[*row] * self.errors[*row], weight + self.weights[*row])
        };
        rows.iter().fold((0.0, 0.0), add)
    }
}

/// The values of the rows by column, in bins.
struct Grid {
    /// The upper limit of each bin except the last one, by column.
    limits: Vec<Vec<f64>>,
    /// The bin of each row, by column.
    bins: Vec<Vec<u8>>,
}

impl Grid {
    fn new(values: &[Vec<f64>]) -> Self {
        let width = values.first().map_or(0, Vec::len);
        let limits: Vec<Vec<f64>> = (0..width)
            .map(|column| {
                let mut sorted: Vec<f64> = values.iter().map(|row| row[column]).collect();
                sorted.sort_by(f64::total_cmp);
                sorted.dedup();
                let bins = sorted.len().min(BINS);
                // The limit is half way between adjacent values, so that similar values fall into the same bin.
                (1..bins)
                    .map(|bin| {
                        let at = bin * sorted.len() / bins;
                        f64::midpoint(sorted[at - 1], sorted[at])
                    })
                    .collect()
            })
            .collect();
        let bin = |limits: &[f64], value: f64| {
            u8::try_from(limits.partition_point(|limit| value > *limit)).unwrap_or(u8::MAX)
        };
        let bins = limits
            .iter()
            .enumerate()
            .map(|(column, limits)| values.iter().map(|row| bin(limits, row[column])).collect())
            .collect();
        Self { limits, bins }
    }

    /// Returns the question that reduces the squared errors the most: gain, column, bin.
    fn best(&self, columns: &[usize], rows: &[usize], rest: &Rest<'_>) -> Option<(f64, usize, usize)> {
        let worth = |sum: f64, weight: f64| sum * sum / (weight + PENALTY);
        let (total, all) = rest.sums(rows);
        let mut best: Option<(f64, usize, usize)> = None;
        for &column in columns {
            let mut sums = [(0.0, 0.0, 0_usize); BINS];
            for &row in rows {
                let (sum, weight, count) = &mut sums[usize::from(self.bins[column][row])];
                *sum += rest.weights[row] * rest.errors[row];
                *weight += rest.weights[row];
                *count += 1;
            }
            let (mut sum, mut weight, mut count) = (0.0, 0.0, 0);
            for (bin, of_bin) in sums[..self.limits[column].len()].iter().enumerate() {
                (sum, weight, count) = (sum + of_bin.0, weight + of_bin.1, count + of_bin.2);
                if count < LEAF || rows.len() - count < LEAF {
                    continue;
                }
                let gain = worth(sum, weight) + worth(total - sum, all - weight) - worth(total, all);
                if gain > best.map_or(1e-9, |(gain, ..)| gain) {
                    best = Some((gain, column, bin));
                }
            }
        }
        best
    }
}

/// Grows a tree for the errors of some rows.
fn grow(grid: &Grid, columns: &[usize], rows: Vec<usize>, rest: &Rest<'_>) -> Vec<Node> {
    let mut tree = vec![Node::Leaf(0.0)];
    let mut open = vec![(0, 0, rows)];
    while let Some((place, depth, rows)) = open.pop() {
        let found = if depth < DEPTH { grid.best(columns, &rows, rest) } else { None };
        let Some((_, column, bin)) = found else {
            let (sum, weight) = rest.sums(&rows);
            tree[place] = Node::Leaf(RATE * sum / (weight + PENALTY));
            continue;
        };
        let next = [tree.len(), tree.len() + 1];
        tree.extend([Node::Leaf(0.0), Node::Leaf(0.0)]);
        tree[place] = Node::Ask(column, grid.limits[column][bin], next);
        let (below, above) = rows.into_iter().partition(|row| usize::from(grid.bins[column][*row]) <= bin);
        open.push((next[0], depth + 1, below));
        open.push((next[1], depth + 1, above));
    }
    tree
}

//! Linear least squares with a penalty on large weights (ridge regression; Hoerl and Kennard, 1970).
//!
//! The columns are the logarithms of sizes, one column for each text of each category, and for each op its own slopes
//! for the estimate, the operations per byte and the constants, because the times of ops grow differently. The
//! weights solve (XᵀX + penalty) w = Xᵀy, by Cholesky's decomposition.

use super::encode::Row;
use serde::{Deserialize, Serialize};

/// The cost of a weight of one, in squared logarithms. The columns are scaled to a deviation of about one.
const PENALTY: f64 = 3.0;
/// The number of sizes, the first of a row, for which each op has its own slopes.
const SLOPES: usize = 3;

/// A fitted linear function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Linear {
    /// The mean and the deviation of each number.
    scales: Vec<(f64, f64)>,
    /// The number of texts of each category.
    sizes: Vec<usize>,
    weights: Vec<f64>,
}

impl Linear {
    /// Fits rows to targets. `sizes` are the numbers of texts of the categories.
    #[allow(clippy::cast_precision_loss)] // Rows are few.
    pub(crate) fn fit(rows: &[Row], targets: &[f64], sizes: Vec<usize>) -> Self {
        let numbers = rows.first().map_or(0, |row| row.numbers.len());
        let count = rows.len().max(1) as f64;
        let scale = |at: usize| {
            let mean = rows.iter().map(|row| row.numbers[at]).sum::<f64>() / count;
            let square = rows.iter().map(|row| (row.numbers[at] - mean).powi(2)).sum::<f64>() / count;
            (mean, square.sqrt().max(1e-6))
        };
        let mut line = Self { scales: (0..numbers).map(scale).collect(), sizes, weights: Vec::new() };
        let width = line.width();
        let mut matrix = vec![0.0; width * width];
        let mut right = vec![0.0; width];
        for (row, target) in rows.iter().zip(targets) {
            let columns = line.columns(row);
            for (place, &(a, x)) in columns.iter().enumerate() {
                right[a] += x * target;
                for &(b, y) in &columns[..=place] {
                    matrix[a.max(b) * width + a.min(b)] += x * y;
                }
            }
        }
        for at in 0..width {
            // The first column is the mean, which has no penalty.
            matrix[at * width + at] += if at == 0 { 1e-9 } else { PENALTY };
        }
        line.weights = solve(matrix, right);
        line
    }

    /// Returns the prediction for a row.
    pub(crate) fn predict(&self, row: &Row) -> f64 {
        self.columns(row).into_iter().map(|(at, x)| x * self.weights[at]).sum()
    }

    /// Returns whether it accepts rows with this number of numbers.
    pub(crate) fn takes(&self, numbers: usize) -> bool {
        self.scales.len() == numbers && self.weights.len() == self.width()
    }

    fn width(&self) -> usize {
        let ops = self.sizes.first().copied().unwrap_or(0);
        1 + self.scales.len() + self.sizes.iter().sum::<usize>() + SLOPES * ops
    }

    /// Returns the columns that are not zero, each once, with their values.
    fn columns(&self, row: &Row) -> Vec<(usize, f64)> {
        let number = |at: usize| (row.numbers[at] - self.scales[at].0) / self.scales[at].1;
        let mut columns = vec![(0, 1.0)];
        columns.extend((0..self.scales.len()).map(|at| (1 + at, number(at))));
        let mut start = 1 + self.scales.len();
        for (size, place) in self.sizes.iter().zip(&row.categories) {
            columns.extend(place.map(|place| (start + place, 1.0)));
            start += size;
        }
        if let Some(op) = row.categories.first().copied().flatten() {
            columns.extend((0..SLOPES).map(|at| (start + SLOPES * op + at, number(at))));
        }
        columns
    }
}

/// Solves a system with a symmetric positive definite matrix, of which only the lower half is read.
pub(crate) fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let width = right.len();
    for a in 0..width {
        for b in 0..=a {
            let dot: f64 = (0..b).map(|at| matrix[a * width + at] * matrix[b * width + at]).sum();
            let rest = matrix[a * width + b] - dot;
            matrix[a * width + b] =
                if a == b { rest.max(1e-12).sqrt() } else { rest / matrix[b * width + b] };
        }
    }
    for a in 0..width {
        let dot: f64 = (0..a).map(|at| matrix[a * width + at] * right[at]).sum();
        right[a] = (right[a] - dot) / matrix[a * width + a];
    }
    for a in (0..width).rev() {
        let dot: f64 = (a + 1..width).map(|at| matrix[at * width + a] * right[at]).sum();
        right[a] = (right[a] - dot) / matrix[a * width + a];
    }
    right
}

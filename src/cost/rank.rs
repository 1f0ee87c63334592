//! Measures of how well one list of numbers predicts another: by order and by size.

/// Returns Spearman's rank correlation; equal numbers share the mean of their ranks. `None` if there are fewer than
/// two pairs, or if all numbers of a list are equal, because then there is no order to compare.
#[allow(clippy::cast_precision_loss)] // Lists are far shorter than what a float counts.
pub fn spearman(predicted: &[f64], seen: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(predicted), ranks(seen));
    let count = a.len().min(b.len());
    let mean = (count as f64 - 1.0) / 2.0;
    let sum = |of: &dyn Fn(usize) -> f64| (0..count).map(of).sum::<f64>();
    let both = sum(&|at| (a[at] - mean) * (b[at] - mean));
    let (left, right) = (sum(&|at| (a[at] - mean).powi(2)), sum(&|at| (b[at] - mean).powi(2)));
    (left > 0.0 && right > 0.0).then(|| both / (left * right).sqrt())
}

/// Returns the median relative error of predictions; `None` for empty lists.
pub fn median_error(predicted: &[f64], seen: &[f64]) -> Option<f64> {
    let mut errors: Vec<f64> =
        predicted.iter().zip(seen).map(|(predicted, seen)| (predicted / seen - 1.0).abs()).collect();
    median(&mut errors)
}

/// Returns the median: the middle number, or the mean of the two middle ones. `None` for an empty list.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let odd = values.len() % 2 == 1;
    Some(if odd { upper } else { f64::midpoint(values[values.len() / 2 - 1], upper) })
}

#[allow(clippy::cast_precision_loss)]
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut at = 0;
    while at < order.len() {
        let equal = order[at..].iter().take_while(|one| values[**one] == values[order[at]]).count().max(1);
        for one in &order[at..at + equal] {
            ranks[*one] = at as f64 + (equal as f64 - 1.0) / 2.0;
        }
        at += equal;
    }
    ranks
}

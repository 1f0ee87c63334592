//! The threshold that loses least information: S. Migacz, "8-bit Inference with TensorRT", GTC 2017.

/// What a bin that the levels say to be empty counts instead of nothing, as a share of all values. Without it one such
/// bin would make the divergence infinite.
const LEAST: f64 = 1e-4;

/// Returns the number of bins, from zero on, within which magnitudes are best represented by a number of levels. What
/// lies beyond them is moved to the last of these bins.
///
/// For every number of bins from `levels` on, the distribution P of the magnitudes is compared with the distribution Q
/// that is left when the bins are merged to the levels, each level spread evenly over its bins that are not empty. The
/// result has the least Kullback-Leibler divergence `sum P ln(P / Q)`; of equal ones the largest. With no more bins
/// than levels, or no values, it is the number of bins.
#[allow(clippy::cast_precision_loss)]
pub fn threshold(counts: &[u64], levels: usize) -> usize {
    let total: u64 = counts.iter().sum();
    if total == 0 || levels == 0 {
        return counts.len();
    }
    let mut best = (f64::INFINITY, counts.len());
    for bins in (levels..=counts.len()).rev() {
        let divergence = divergence(counts, bins, levels, total as f64);
        if divergence < best.0 {
            best = (divergence, bins);
        }
    }
    best.1
}

/// Returns the divergence of what is left of magnitudes in a number of bins.
#[allow(clippy::cast_precision_loss)]
fn divergence(counts: &[u64], bins: usize, levels: usize, total: f64) -> f64 {
    let (within, beyond) = counts.split_at(bins);
    let outliers: u64 = beyond.iter().sum();
    let kept = total - outliers as f64;
    if kept <= 0.0 {
        return f64::INFINITY;
    }
    let mut divergence = 0.0;
    for level in 0..levels {
        // Levels have whole bins, so that their sizes differ by at most one.
        let (from, to) = (level * bins / levels, (level + 1) * bins / levels);
        let of_level = &within[from..to];
        let sum: u64 = of_level.iter().sum();
        let filled = of_level.iter().filter(|count| **count > 0).count();
        for (at, &count) in of_level.iter().enumerate() {
            let moved = if from + at + 1 == bins { outliers } else { 0 };
            let p = (count + moved) as f64 / total;
            if p > 0.0 {
                let q = if count > 0 { sum as f64 / filled as f64 / kept } else { LEAST };
                divergence += p * (p / q).ln();
            }
        }
    }
    divergence
}

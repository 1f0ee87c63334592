//! What the times of kernels may gain.
//!
//! A value of a plan has candidates: kernels that compute it. Each has an estimate, which may be wrong. Without times, the
//! plan takes the candidate with the least estimate; with the times of all candidates, the fastest one. The mean difference
//! is the *expected value of perfect information* (H. Raiffa and R. Schlaifer, "Applied Statistical Decision Theory",
//! 1961). It is large where estimates are uncertain and close to each other, and where the value takes long.
//!
//! Times are taken to be independent, each with a log-logistic distribution around its estimate. This distribution is
//! close to the log-normal one, and its survival function needs no integral.

use std::f64::consts::PI;

/// What is known of the time of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Belief {
    /// The median of its distribution, in seconds; above 0.
    pub seconds: f64,
    /// The standard deviation of its logarithm; above 0.
    pub uncertainty: f64,
}

/// The number of steps of the integral.
const STEPS: u32 = 96;

impl Belief {
    /// The scale of the logistic distribution of the logarithm.
    fn scale(self) -> f64 {
        self.uncertainty * 3_f64.sqrt() / PI
    }

    /// Returns the probability that the time is more than `e^x` seconds.
    fn survival(self, x: f64) -> f64 {
        1.0 / (1.0 + ((x - self.seconds.ln()) / self.scale()).exp())
    }
}

/// Returns how many seconds the fastest of some kernels takes less than the one with the least estimate, in the mean; 0 for
/// a single kernel.
///
/// With survival functions `S` and the least estimate at `b`, this is the integral of `S_b(t) (1 - S_i(t) S_j(t) ...)` over
/// `t`, where the product is that of all other kernels.
pub(crate) fn expected(kernels: &[Belief]) -> f64 {
    let order = |a: &&Belief, b: &&Belief| a.seconds.total_cmp(&b.seconds);
    let Some(best) = kernels.iter().min_by(order) else { return 0.0 };
    let at = kernels.iter().position(|kernel| std::ptr::eq(kernel, best)).unwrap_or(0);
    let others = || kernels.iter().enumerate().filter(move |(one, _)| *one != at).map(|(_, other)| *other);
    // Beyond ten scales, less than 1 time in 20,000 is left.
    let low = others().map(|one| one.seconds.ln() - 10.0 * one.scale()).fold(f64::INFINITY, f64::min);
    let high = best.seconds.ln() + 10.0 * best.scale();
    if low >= high {
        return 0.0;
    }
    let step = (high - low) / f64::from(STEPS);
    let at_middles = (0..STEPS).map(|number| low + (f64::from(number) + 0.5) * step);
    let gains = at_middles.map(|x| {
        let all_slower: f64 = others().map(|other| other.survival(x)).product();
        best.survival(x) * (1.0 - all_slower) * x.exp()
    });
    gains.sum::<f64>() * step
}

/// Like [`expected`], for a value whose only rivals are other forms of the graph: the value of one kernel, and a conversion.
/// They are taken to have the same estimate, so that this is the most that a single rival can gain.
pub(crate) fn of_one(kernel: Belief) -> f64 {
    expected(&[kernel, kernel])
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn belief(seconds: f64, uncertainty: f64) -> Belief {
        Belief { seconds, uncertainty }
    }

    #[test]
    fn the_gain_is_that_of_drawn_times() {
        // A linear congruential generator (Knuth, MMIX).
        let mut state = 1_u64;
        let mut draw = |kernel: Belief| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[allow(clippy::cast_precision_loss)]
            let uniform = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            kernel.seconds * ((uniform / (1.0 - uniform)).ln() * kernel.scale()).exp()
        };
        for kernels in [
            vec![belief(1.0, 0.3), belief(1.0, 0.3)],
            vec![belief(1.2, 0.2), belief(1.0, 0.5), belief(2.0, 0.4)],
            vec![belief(1e-3, 0.05), belief(1.1e-3, 0.3)],
        ] {
            let least = kernels.iter().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
            let mut sum = 0.0;
            for _ in 0..200_000 {
                let times: Vec<f64> = kernels.iter().map(|one| draw(*one)).collect();
                let taken = kernels
                    .iter()
                    .zip(&times)
                    .find(|(one, _)| one.seconds <= least)
                    .map_or(0.0, |one| *one.1);
                sum += taken - times.iter().copied().fold(f64::INFINITY, f64::min);
            }
            let (drawn, found) = (sum / 200_000.0, expected(&kernels));
            assert!((found / drawn - 1.0).abs() < 0.03, "{found} and {drawn} for {kernels:?}");
        }
    }

    #[test]
    fn more_is_gained_where_estimates_are_close_uncertain_or_long() {
        let close = expected(&[belief(1.0, 0.3), belief(1.1, 0.3)]);
        assert!(close > 3.0 * expected(&[belief(1.0, 0.3), belief(1.9, 0.3)]));
        assert!(close > 2.0 * expected(&[belief(1.0, 0.1), belief(1.1, 0.1)]));
        assert!(close < expected(&[belief(1.0, 0.3), belief(1.1, 0.3), belief(1.1, 0.3)]));
        let long = expected(&[belief(8.0, 0.3), belief(8.8, 0.3)]);
        assert!((long / close - 8.0).abs() < 1e-9, "{long} and {close}");
    }

    #[test]
    fn nothing_is_gained_where_nothing_can_change() {
        assert!(expected(&[]).abs() < 1e-12 && expected(&[belief(1.0, 0.3)]).abs() < 1e-12);
        assert!(expected(&[belief(1.0, 0.01), belief(2.0, 0.01)]).abs() < 1e-12);
        let one = of_one(belief(1.0, 0.3));
        assert!(one > 0.1 && one < 0.3, "{one}");
    }
}

//! A limit on the time that the tuning of one model takes.

use std::time::{Duration, Instant};

/// The share of a plan's time below which a gain is not worth timing kernels for.
const NEGLIGIBLE: f64 = 0.01;

/// The share of the time by which a tuning may end late, rather than lose what it has prepared.
const LATE: f64 = 0.1;

/// What a tuning does one after the other, and the share of the time after which each must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Kernels are timed, each alone.
    Kernels,
    /// Plans are run, for the times of kernels within them.
    Plans,
    /// The best plans are timed whole.
    Race,
}

impl Phase {
    /// The share of the time that is used up when this phase must have ended. A race of two plans decides what runs from
    /// then on, and must have enough runs to be right.
    fn share(self) -> f64 {
        match self {
            Self::Kernels => 0.5,
            Self::Plans => 0.65,
            Self::Race => 1.0,
        }
    }
}

/// The most time that a tuning takes, from its start on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeLimit {
    start: Instant,
    all: Duration,
    /// About how many seconds a plan takes by the price list.
    pub(crate) plan: f64,
}

impl TimeLimit {
    /// A limit that counts from now on; of more than a day, a day is taken.
    pub fn from_now(all: Duration) -> Self {
        Self { start: Instant::now(), all: all.min(Duration::from_secs(86_400)), plan: 0.0 }
    }

    /// The same for a model whose plan takes so many seconds by the price list.
    pub(crate) fn for_plan(self, seconds: f64) -> Self {
        Self { plan: seconds, ..self }
    }

    /// When a phase must have ended.
    pub(crate) fn end(self, phase: Phase) -> Instant {
        self.start + self.all.mul_f64(phase.share())
    }

    /// When something that has to be whole must have ended: a little after the end of all.
    pub(crate) fn latest(self) -> Instant {
        self.end(Phase::Race) + self.all.mul_f64(LATE)
    }

    /// The time that is left for a phase.
    pub(crate) fn left(self, phase: Phase) -> Duration {
        self.end(phase).saturating_duration_since(Instant::now())
    }

    /// How many of some kernels are worth timing. Each is given by the number of its value, and the seconds that the plan
    /// may gain by their times; kernels of one value are adjacent, and those that are worth less come later. The others are the
    /// last ones, which together gain at most a hundredth of the plan.
    pub(crate) fn worthwhile(self, kernels: &[(usize, f64)]) -> usize {
        let mut rest = 0.0;
        let mut worth = kernels.len();
        for value in kernels.chunk_by(|a, b| a.0 == b.0).rev() {
            rest += value[0].1;
            if rest > NEGLIGIBLE * self.plan {
                break;
            }
            worth -= value.len();
        }
        worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_gain_a_hundredth_of_a_plan_together_are_not_worth_timing() {
        let limit = TimeLimit::from_now(Duration::from_secs(1)).for_plan(1.0);
        let kernels = [(4, 0.7), (4, 0.7), (1, 0.2), (2, 0.006), (2, 0.006), (3, 0.005)];
        // Value 3 gains little, but with value 2 it is more than a hundredth.
        assert_eq!(limit.worthwhile(&kernels), 5);
        assert_eq!(limit.worthwhile(&kernels[..5]), 3);
        assert_eq!(limit.worthwhile(&kernels[..3]), 3);
        assert_eq!(limit.worthwhile(&[]), 0);
    }

    #[test]
    fn later_phases_end_later_and_a_limit_is_at_most_a_day() {
        let limit = TimeLimit::from_now(Duration::MAX);
        let [kernels, plans, race] =
            [Phase::Kernels, Phase::Plans, Phase::Race].map(|phase| limit.left(phase));
        assert!(kernels < plans && plans < race && race <= Duration::from_secs(86_400));
        assert!(TimeLimit::from_now(Duration::ZERO).left(Phase::Race).is_zero());
    }
}

//! A limit on the time that the tuning of one model takes.

use std::time::{Duration, Instant};

/// The share of a plan's time below which a gain is not worth timing kernels for.
const NEGLIGIBLE: f64 = 0.01;

/// The share of the time that is kept for what takes longer than expected: loading plans, for example.
const LATE: f64 = 0.1;

/// The share of the time from which on more kernels are timed, where no race is necessary so far.
const BRIEF: f64 = 0.02;

/// The least and the most share of the time that the race of the best plans gets.
const RACE: [f64; 2] = [0.35, 0.6];

/// Of the time before the race, the share in which kernels are timed alone.
const ALONE: f64 = 0.75;

/// What a tuning does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Kernels are timed, each alone.
    Kernels,
    /// Plans are run, for the times of kernels within them.
    Plans,
    /// The best plans are timed whole.
    Race,
}

/// The most time that a tuning takes, from its start on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeLimit {
    start: Instant,
    all: Duration,
    /// The time that was used up when the graph had been made ready for tuning.
    prepared: Duration,
    /// About how many seconds a plan takes by the price list.
    pub(crate) plan: f64,
    /// About how many seconds the race of the best plans takes for each of them.
    entrant: f64,
}

impl TimeLimit {
    /// A limit that counts from now on; of more than a day, a day is taken.
    pub fn from_now(all: Duration) -> Self {
        let all = all.min(Duration::from_secs(86_400)).mul_f64(1.0 - LATE);
        Self { start: Instant::now(), all, prepared: Duration::ZERO, plan: 0.0, entrant: 0.0 }
    }

    /// The same from now on for a model whose plan takes so many seconds by the price list, and so many in a race.
    pub(crate) fn for_plan(self, seconds: f64, entrant: f64) -> Self {
        Self { prepared: self.start.elapsed(), plan: seconds, entrant, ..self }
    }

    /// When a phase must have ended. A race of two plans decides what runs from then on, so that it must have enough runs to
    /// be right. The time that two plans need for it is not used for anything else.
    pub(crate) fn end(self, phase: Phase) -> Instant {
        let all = self.all.as_secs_f64();
        let race = (2.0 * self.entrant).clamp(RACE[0] * all, RACE[1] * all);
        let before = (all - self.prepared.as_secs_f64() - race).max(0.0);
        let end = match phase {
            Phase::Kernels => self.prepared.as_secs_f64() + ALONE * before,
            Phase::Plans => self.prepared.as_secs_f64() + before,
            Phase::Race => all,
        };
        self.start + Duration::from_secs_f64(end)
    }

    /// The same with more time for kernels, if there is some; the time for a race stays.
    pub(crate) fn longer(self) -> Option<Self> {
        let longer = Self { prepared: self.start.elapsed(), ..self };
        (longer.left(Phase::Kernels) > self.all.mul_f64(BRIEF)).then_some(longer)
    }

    /// How many plans there is time to race.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn entrants(self) -> usize {
        (self.left(Phase::Race).as_secs_f64() / self.entrant.max(f64::MIN_POSITIVE)) as usize
    }

    /// The seconds that are left for something that has to be whole.
    pub(crate) fn left_at_most(self) -> f64 {
        self.all.div_f64(1.0 - LATE).saturating_sub(self.start.elapsed()).as_secs_f64()
    }

    /// The time that is left for a phase.
    pub(crate) fn left(self, phase: Phase) -> Duration {
        self.end(phase).saturating_duration_since(Instant::now())
    }

    /// How many of some kernels are worth timing. Each is given by the number of its value, and the seconds that the plan
    /// may gain by their times; kernels of one value are adjacent, in the order in which they are timed. The others are the last
    /// ones, which together gain at most a hundredth of the plan.
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
        let limit = TimeLimit::from_now(Duration::from_secs(1)).for_plan(1.0, 0.1);
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

    #[test]
    fn the_race_of_long_plans_begins_earlier() {
        let limit = |entrant: f64| TimeLimit::from_now(Duration::from_secs(100)).for_plan(1.0, entrant);
        let begin = |entrant: f64| limit(entrant).left(Phase::Plans).as_secs_f64();
        // A tenth of the time is kept.
        assert!((begin(0.1) - 58.5).abs() < 1.0 && (begin(20.0) - 50.0).abs() < 1.0);
        assert!((begin(25.0) - 40.0).abs() < 1.0 && (begin(90.0) - 36.0).abs() < 1.0);
        assert_eq!(limit(29.0).entrants(), 3);
        assert_eq!(limit(101.0).entrants(), 0);
        let longer = limit(90.0).longer().map(|limit| limit.left(Phase::Plans).as_secs_f64());
        assert!(longer.is_some_and(|left| (left - 36.0).abs() < 1.0));
        assert!(TimeLimit::from_now(Duration::ZERO).longer().is_none());
    }
}

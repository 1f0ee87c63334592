//! Runs whole plans in turns, so that whatever slows the machine slows all of them.

use super::clock::median;
use crate::calibrate;
use crate::limit::{Phase, TimeLimit};
use crate::placement::Placement;
use ovolo::backend::Backends;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::plan::Plan;
use ovolo::session::{Session, SessionError};
use ovolo::stage::Planned;
use ovolo::team::Team;
use ovolo::tensor::Tensor;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often plans are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// The fewest and the most runs of each plan.
    runs: [usize; 2],
    /// The time for all plans together, beyond the fewest runs.
    time: Duration,
    /// How long they wait in all for a good placement of the threads.
    patience: Duration,
    /// The limit of the tuning. Beyond the fewest runs, none begins when the time is up; if the fewest are impossible in this
    /// time, there are none.
    limit: Option<TimeLimit>,
}

impl Rounds {
    /// For a choice among a few plans.
    pub const USUAL: Self =
        Self { runs: [5, 101], time: Duration::from_secs(4), patience: PATIENCE, limit: None };

    /// For timing the steps of plans.
    pub const STEPS: Self =
        Self { runs: [5, 25], time: Duration::from_secs(3), patience: PATIENCE, limit: None };

    /// About how many seconds it takes to load a plan and to run it as often as necessary.
    #[allow(clippy::cast_precision_loss)]
    pub fn seconds(self, program: &Graph, plan: &Plan) -> f64 {
        LOADED * program.constant_bytes() as f64 + self.running(plan)
    }

    /// About how many seconds it takes to run it.
    #[allow(clippy::cast_precision_loss)]
    fn running(self, plan: &Plan) -> f64 {
        let (rounds, run) = (self.runs[0] as f64, plan.seconds());
        2.0 * run + rounds * (run.max(WARM.as_secs_f64()) + run.max(LONG.as_secs_f64()))
    }

    /// The same, ending about when a time is up, however few runs that leaves beyond the fewest.
    pub fn within(self, time: Duration) -> Self {
        Self { time: self.time.min(time), patience: self.patience.min(time / 4), ..self }
    }

    /// The same within the limit of a tuning.
    pub fn limited(self, limit: TimeLimit) -> Self {
        Self { limit: Some(limit), ..self.within(limit.left(Phase::Race)) }
    }

    /// Exactly `runs` runs, however long they take.
    pub const fn exactly(runs: usize) -> Self {
        Self { runs: [runs, runs], time: Duration::ZERO, patience: PATIENCE, limit: None }
    }
}

/// A plan replaces an earlier one if the median ratio of their times is below this.
const FASTER: f64 = 0.98;

/// The rule by which a plan stays, in words.
pub(super) const RULE: &str = "another one replaces it only if it is clearly faster: by 2 % in the median of \
                               their ratios, and by any amount in three of four rounds";

/// How long a race waits in all for a good placement of the threads, unless its time is limited.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long it waits at one time.
const PAUSE: Duration = Duration::from_millis(400);
/// Runs that do not count are repeated, up to this multiple of the wanted number of rounds.
const AGAIN: usize = 2;
/// How long a plan runs, at least once, before the run that counts. Other plans drove its data out of the caches, and it
/// takes some runs until the data is back. This is true of weights, too, where the last cache is large.
const WARM: Duration = Duration::from_millis(20);
/// About how many seconds it takes to load one byte of constants.
const LOADED: f64 = 2e-9;
/// A shorter plan is timed by the median of its runs within this time, because a single run of some tenths of
/// a millisecond is random.
const LONG: Duration = Duration::from_millis(10);
/// The number of undisturbed runs from which on disturbed ones are ignored.
const ENOUGH: usize = 5;

/// The runs of some plans, round by round: seconds, and whether the placement of the threads was good.
pub(super) struct Race {
    rounds: Vec<Vec<(f64, bool)>>,
    /// If fewer runs count, all of them do.
    least: usize,
}

impl Race {
    fn new(wanted: usize) -> Self {
        Self { rounds: Vec::new(), least: wanted.min(ENOUGH) }
    }

    /// Whether one of `entrants` plans has fewer than `runs` runs that count, and another round is allowed.
    fn wants(&self, runs: usize, entrants: usize) -> bool {
        let counted = |at: usize| self.rounds.iter().filter(|round| round[at].1).count();
        self.rounds.len() < runs
            || self.rounds.len() < AGAIN * runs && (0..entrants).any(|at| counted(at) < runs)
    }

    /// The seconds of the runs of a plan that count.
    pub fn times(&self, at: usize) -> Vec<f64> {
        self.counted(&[at]).map(|round| round[at].0).collect()
    }

    /// The ratios of the times of one plan to those of another, in rounds that count for both.
    pub fn ratios(&self, at: usize, other: usize) -> Vec<f64> {
        self.counted(&[at, other]).map(|round| round[at].0 / round[other].0).collect()
    }

    /// Whether one plan is clearly faster than another, so that noise does not decide: by the median of the
    /// ratios, and by any amount in three of four rounds.
    pub fn beats(&self, at: usize, other: usize) -> bool {
        let mut ratios = self.ratios(at, other);
        ratios.sort_by(f64::total_cmp);
        let at = |quarters: usize| ratios.get(ratios.len() * quarters / 4).copied().unwrap_or(f64::INFINITY);
        at(2) < FASTER && at(3) < 1.0
    }

    /// Returns the plan that wins: `first`, unless another one is clearly faster.
    pub fn winner(&self, first: usize, entrants: usize) -> usize {
        self.leader(first, first, entrants)
    }

    /// Returns the plan that leads: `best`, unless another one is clearly faster than it and than `first`. A plan that is
    /// clearly faster than one that is clearly faster than the first need not be so itself.
    pub fn leader(&self, first: usize, best: usize, entrants: usize) -> usize {
        let ahead = |at: usize, best: usize| {
            self.beats(at, best) && (at == first || best == first || self.beats(at, first))
        };
        (0..entrants).fold(best, |best, at| if at != best && ahead(at, best) { at } else { best })
    }

    /// The rounds in which the runs of these plans count, or all rounds if those are too few.
    fn counted<'a>(&'a self, of: &'a [usize]) -> impl Iterator<Item = &'a Vec<(f64, bool)>> {
        let well = |round: &Vec<(f64, bool)>| of.iter().all(|at| round[*at].1);
        let few = self.rounds.iter().filter(|round| well(round)).count() < self.least;
        self.rounds.iter().filter(move |round| few || well(round))
    }
}

/// Runs plans in turns on one team.
pub(super) fn race(plans: &[(&Graph, &Plan)], backends: &Backends, rounds: Rounds) -> Result<Race, Error> {
    in_turns(plans, backends, rounds, plans.len(), &mut |session, inputs, placement, round| {
        let mut times = Vec::new();
        let start = Instant::now();
        while times.is_empty() || start.elapsed() < LONG {
            let start = Instant::now();
            session.run(inputs)?;
            times.push(start.elapsed().as_secs_f64());
        }
        round.push((median(&times).0, placement.holds(session.team())));
        Ok(())
    })
}

/// Adds the times of one run of a session to a round.
type Measure<'a> = dyn FnMut(&mut Session, &[&Tensor], &mut Placement, &mut Vec<(f64, bool)>) -> Result<(), SessionError>
    + 'a;

/// Runs plans in turns on one team; `entrants` is the number of times in a round. There are no rounds if there is no time to
/// load all plans.
fn in_turns(
    plans: &[(&Graph, &Plan)],
    backends: &Backends,
    rounds: Rounds,
    entrants: usize,
    measure: &mut Measure<'_>,
) -> Result<Race, Error> {
    let mut race = Race::new(rounds.runs[0]);
    let Some((_, first)) = plans.first() else { return Ok(race) };
    let inputs = zeros(first);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let team = Arc::new(Team::new(first.threads));
    let mut sessions = Vec::with_capacity(plans.len());
    let running: f64 = plans.iter().map(|(_, plan)| rounds.running(plan)).sum();
    for (number, (program, plan)) in (1_u32..).zip(plans) {
        let start = Instant::now();
        sessions.push(Session::new(program, (*plan).clone(), backends)?.on(&team));
        // The others are taken to need as long as this one.
        let rest = start.elapsed() * u32::try_from(plans.len()).unwrap_or(u32::MAX).saturating_sub(number);
        if rounds.limit.is_some_and(|limit| rest.as_secs_f64() + running > limit.left_at_most()) {
            return Ok(race);
        }
    }
    // The first run, which starts the threads, is not counted.
    for session in &mut sessions {
        session.run(&inputs)?;
    }
    let mut placement = calibrate::placement(&team);
    let mut patience = rounds.patience;
    let start = Instant::now();
    while race.wants(rounds.runs[1], entrants) {
        let late = rounds.limit.is_some_and(|limit| limit.left(Phase::Race).is_zero());
        if !race.wants(rounds.runs[0], entrants) && (late || start.elapsed() > rounds.time) {
            break;
        }
        let (_, waited) = placement.wait(&team, PAUSE.min(patience));
        patience = patience.saturating_sub(waited);
        let mut round = Vec::with_capacity(entrants);
        for session in &mut sessions {
            warm(|| session.run(&inputs).map(drop))?;
            measure(session, &inputs, &mut placement, &mut round)?;
        }
        race.rounds.push(round);
    }
    calibrate::keep_placement(&team, &placement);
    Ok(race)
}

/// Returns the median seconds of each step of a plan over `runs` runs.
///
/// # Errors
/// An error if a plan cannot be loaded or run.
pub fn profile(planned: &Planned, backends: &Backends, runs: usize) -> Result<Vec<f64>, Error> {
    let steps = steps(&[(&planned.chosen.program, &planned.plan)], backends, Rounds::exactly(runs.max(1)))?;
    Ok(steps.into_iter().flatten().collect())
}

/// Returns the median seconds of each step of several plans that are run in turns on one team.
pub(super) fn steps(
    plans: &[(&Graph, &Plan)],
    backends: &Backends,
    rounds: Rounds,
) -> Result<Vec<Vec<f64>>, Error> {
    // Each step counts as an entrant.
    let steps = plans.iter().map(|(_, plan)| plan.steps.len()).sum();
    let race = in_turns(plans, backends, rounds, steps, &mut |session, inputs, placement, round| {
        let mut times: Vec<Vec<f64>> = Vec::new();
        let start = Instant::now();
        while times.is_empty() || start.elapsed() < LONG {
            let steps = session.profile(inputs)?;
            times.resize_with(steps.len(), Vec::new);
            times.iter_mut().zip(steps).for_each(|(times, step)| times.push(step.as_secs_f64()));
        }
        let held = placement.holds(session.team());
        round.extend(times.iter().map(|times| (median(times).0, held)));
        Ok(())
    })?;
    let mut at = 0..steps;
    let medians = |(_, plan): &(&Graph, &Plan)| {
        at.by_ref().take(plan.steps.len()).map(|step| median(&race.times(step)).0).collect()
    };
    Ok(plans.iter().map(medians).collect())
}

/// Calls `run` until it has run for [`WARM`].
fn warm(mut run: impl FnMut() -> Result<(), SessionError>) -> Result<(), SessionError> {
    let start = Instant::now();
    run()?;
    while start.elapsed() < WARM {
        run()?;
    }
    Ok(())
}

fn zeros(plan: &Plan) -> Vec<Tensor> {
    plan.given_inputs().into_iter().map(|(_, ty)| Tensor::zeros(ty)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_runs_count_only_where_there_are_too_few_others() {
        let mut race = Race::new(9);
        for round in 0..9 {
            // The second is slower by half, but looks faster in rounds where the first is disturbed.
            let disturbed = round % 3 == 0;
            race.rounds.push(vec![(if disturbed { 4.0 } else { 2.0 }, !disturbed), (3.0, true)]);
        }
        assert_eq!(race.times(0), [2.0; 6]);
        assert_eq!(race.times(1), [3.0; 9]);
        assert_eq!(race.ratios(1, 0), [1.5; 6]);
        assert!(race.beats(0, 1) && !race.beats(1, 0));
        assert!(race.wants(9, 2) && !race.wants(6, 2) && !race.wants(4, 2));
        // Four undisturbed rounds are too few, so all rounds count.
        for round in &mut race.rounds[..3] {
            round[1].1 = false;
        }
        assert_eq!(race.times(1), [3.0; 6]);
        assert_eq!(race.ratios(1, 0), [0.75, 1.5, 1.5, 0.75, 1.5, 1.5, 0.75, 1.5, 1.5]);
        assert!(!race.beats(0, 1), "faster in the median, but not in three of four rounds");
    }

    #[test]
    fn the_first_plan_stays_unless_another_one_is_clearly_faster() {
        let winner = |first: usize, seconds: [f64; 3]| {
            let mut race = Race::new(9);
            race.rounds = vec![seconds.map(|seconds| (seconds, true)).to_vec(); 9];
            race.winner(first, 3)
        };
        assert_eq!(winner(1, [0.99, 1.0, 0.985]), 1);
        assert_eq!(winner(1, [0.95, 1.0, 1.1]), 0);
        assert_eq!(winner(1, [0.95, 1.0, 0.9]), 2);
        assert_eq!(winner(0, [0.99, 0.9, 1.0]), 1);
        assert_eq!(Race::new(9).winner(1, 0), 1);
    }

    #[test]
    fn a_plan_that_beats_a_better_one_must_beat_the_first_as_well() {
        let mut race = Race::new(9);
        let round = |second: f64, third: f64| vec![(1.0, true), (second, true), (third, true)];
        race.rounds.extend((0..5).map(|_| round(0.95, 0.90)));
        race.rounds.extend([round(0.95, 1.01), round(0.95, 1.01), round(1.10, 1.02), round(1.10, 1.02)]);
        assert!(race.beats(1, 0) && race.beats(2, 1) && !race.beats(2, 0));
        assert_eq!((race.winner(0, 3), race.leader(0, 1, 3)), (1, 1));
        // The first takes its lead back from a plan that it beats.
        assert_eq!(race.leader(1, 0, 2), 1);
        // Where it is clearly faster than both, it wins.
        race.rounds[5][2].0 = 0.9;
        race.rounds[6][2].0 = 0.9;
        assert!(race.beats(2, 1) && race.beats(2, 0));
        assert_eq!((race.winner(0, 3), race.leader(0, 1, 3)), (2, 2));
    }

    #[test]
    fn a_race_without_entrants_ends() {
        let mut race = Race::new(3);
        assert!(race.wants(3, 0));
        race.rounds.extend([const { Vec::new() }; 3]);
        assert!(!race.wants(3, 0));
    }
}

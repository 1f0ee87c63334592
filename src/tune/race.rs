//! Plans that are run in turns, whole, so that what slows the machine slows all of them.

use super::clock::median;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::Chosen;
use crate::plan::Plan;
use crate::session::Session;
use crate::tensor::Tensor;
use std::time::{Duration, Instant};

/// How often plans are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// The fewest and the most runs of each.
    runs: [usize; 2],
    /// How long plans are timed in all, beyond the fewest runs.
    time: Duration,
}

impl Rounds {
    /// For a choice among a few.
    pub const USUAL: Self = Self { runs: [5, 101], time: Duration::from_secs(4) };

    /// So many, however long they take.
    pub const fn exactly(runs: usize) -> Self {
        Self { runs: [runs, runs], time: Duration::ZERO }
    }
}

/// A plan takes the place of one before it where the median of their ratios is below this.
const FASTER: f64 = 0.98;

/// The rule by which a plan keeps its place, in words.
pub(super) const RULE: &str = "another takes its place only where it is clearly faster: by 2 % in the median of \
                               their ratios, and at all in three of four rounds";

/// Seconds of the runs of plans that take turns, round by round.
pub(super) fn race(plans: &[(&Graph, &Plan)], rounds: Rounds) -> Result<Vec<Vec<f64>>, Error> {
    let mut sessions = Vec::with_capacity(plans.len());
    for (program, plan) in plans {
        let session = Session::new(program, (*plan).clone());
        sessions.push(session.map_err(|error| Error::setting(error.to_string()))?);
    }
    let inputs = plans.first().map(|(_, plan)| zeros(plan)).unwrap_or_default();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut times = vec![Vec::new(); sessions.len()];
    let start = Instant::now();
    for round in 0..=rounds.runs[1] {
        if round > rounds.runs[0] && start.elapsed() > rounds.time {
            break;
        }
        for (session, times) in sessions.iter_mut().zip(&mut times) {
            let start = Instant::now();
            session.run(&inputs).map_err(|error| Error::setting(error.to_string()))?;
            // The first round warms caches and threads.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    Ok(times)
}

/// Whether a plan is faster than another, round by round: clearly in the middle, and in three of four
/// rounds at all, so that noise does not decide.
pub(super) fn beats(plan: &[f64], other: &[f64]) -> bool {
    let mut ratios: Vec<f64> = plan.iter().zip(other).map(|(plan, other)| plan / other).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |quarters: usize| ratios.get(ratios.len() * quarters / 4).copied().unwrap_or(f64::INFINITY);
    at(2) < FASTER && at(3) < 1.0
}

/// The median seconds of each step of a plan, over so many runs.
///
/// # Errors
/// A plan that cannot be loaded or run.
pub fn profile(chosen: &Chosen, runs: usize) -> Result<Vec<f64>, Error> {
    let wrong = |error: crate::session::SessionError| Error::setting(error.to_string());
    let mut session = Session::new(&chosen.program, chosen.plan.clone()).map_err(wrong)?;
    let inputs = zeros(&chosen.plan);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); chosen.plan.steps.len()];
    session.run(&inputs).map_err(wrong)?;
    for _ in 0..runs.max(1) {
        for (times, time) in times.iter_mut().zip(session.profile(&inputs).map_err(wrong)?) {
            times.push(time.as_secs_f64());
        }
    }
    Ok(times.iter().map(|times| median(times).0).collect())
}

fn zeros(plan: &Plan) -> Vec<Tensor> {
    plan.inputs.iter().map(|(_, ty)| Tensor::zeros(ty.clone())).collect()
}

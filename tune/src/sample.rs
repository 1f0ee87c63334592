//! Choice by measured time alone: plans around the extracted one are timed whole, and the fastest stays.
//!
//! The sum of the kernels' times is not quite the time of a plan, and no extraction knows the difference. So
//! other good plans are drawn by extractions with disturbed prices ([`Noise`]), and run in turns with the
//! best so far, a few at a time. The budget is a number of plans, not of seconds, and the same seed draws the
//! same plans. A drawn plan replaces the best so far only if it is clearly faster, as in every race of plans.

use super::clock::median;
use super::race::{Rounds, race};
use ovolo::backend::Backends;
use ovolo::compile::Options;
use ovolo::cost::Noise;
use ovolo::cost::stored::checksum;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::plan::Plan;
use ovolo::stage::{Planned, Saturated};
use std::collections::BTreeSet;
use std::time::Instant;

/// How many plans are drawn, and with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The number of different plans.
    pub plans: usize,
    /// The seed.
    pub seed: u64,
}

/// The most draws for each wanted plan: most disturbances change nothing if one candidate is far ahead.
const DRAWS: usize = 6;
/// The number of plans that are timed in turns with the best so far, and the most bytes of their constants.
const TURN: usize = 4;
const BYTES: usize = 2 << 30;

/// A plan that was drawn.
#[derive(Debug)]
pub struct Drawn {
    /// The number of its draw; `None` for the plan by undisturbed prices.
    pub draw: Option<usize>,
    /// The checksum of its text.
    pub text: String,
    /// The program with its plan.
    pub planned: Planned,
}

impl Drawn {
    /// The name of the plan in decisions and reports.
    pub fn way(&self, seed: u64) -> String {
        self.draw.map_or_else(|| "extracted".to_owned(), |draw| format!("{WAY}{seed}.{draw}"))
    }
}

/// The start of the names of drawn plans.
const WAY: &str = "sample-";

/// The disturbance that a name describes; `None` for other names.
pub(super) fn noise(way: &str) -> Option<Noise> {
    let (seed, draw) = way.strip_prefix(WAY)?.split_once('.')?;
    Some(Noise::draw(seed.parse().ok()?, draw.parse().ok()?))
}

/// Sets how the prices of a pipeline are disturbed.
pub(super) fn disturb(options: &mut Options, noise: Option<Noise>) {
    if let Some(extract) = options.pipeline.extract_mut() {
        extract.noise = noise;
    }
}

/// Returns the extracted plan and plans around it that differ from it and from each other. `spread` is how
/// many times larger than usual the disturbances are. There may be fewer plans than wanted.
///
/// # Errors
/// The errors of compiling.
pub fn draw(
    saturated: &Saturated,
    options: &mut Options,
    sampling: Sampling,
    spread: usize,
) -> Result<Vec<Drawn>, Error> {
    draw_until(saturated, options, sampling, spread, None)
}

/// As [`draw`], but draws nothing more when the time is up. There is always the extracted plan.
pub(super) fn draw_until(
    saturated: &Saturated,
    options: &mut Options,
    sampling: Sampling,
    spread: usize,
    end: Option<Instant>,
) -> Result<Vec<Drawn>, Error> {
    let draws = Draws { saturated, seed: sampling.seed, spread };
    draws.distinct(options, sampling.plans, end, |drawn| drawn)
}

/// Draws `among` times as many plans as wanted, and returns those whose prices, by the cost model, spread
/// most evenly from the smallest to the largest. Most plans around the best are nearly as good, so their
/// times could only tell apart plans that differ by a few percent.
///
/// # Errors
/// The errors of compiling.
pub fn draw_evenly(
    saturated: &Saturated,
    options: &mut Options,
    sampling: Sampling,
    spread: usize,
    among: usize,
) -> Result<Vec<Drawn>, Error> {
    if among <= 1 {
        return draw(saturated, options, sampling, spread);
    }
    let draws = Draws { saturated, seed: sampling.seed, spread };
    // All these plans would take too much memory, so the selected ones are extracted again.
    let price = |one: &Drawn| one.planned.plan.seconds().max(f64::MIN_POSITIVE).ln();
    let candidates = draws.distinct(options, sampling.plans * among, None, |one| (one.draw, price(&one)))?;
    let prices: Vec<f64> = candidates.iter().map(|(_, price)| *price).collect();
    evenly(&prices, sampling.plans + 1).into_iter().map(|at| draws.one(options, candidates[at].0)).collect()
}

/// The source of drawn plans.
struct Draws<'a> {
    saturated: &'a Saturated,
    seed: u64,
    spread: usize,
}

impl Draws<'_> {
    /// Returns the plan of a draw; without a draw, the plan by undisturbed prices.
    fn one(&self, options: &mut Options, draw: Option<usize>) -> Result<Drawn, Error> {
        disturb(options, draw.map(|draw| Noise::draw(self.seed, draw).wider(self.spread)));
        let found = options.plan(self.saturated);
        disturb(options, None);
        let planned = found?;
        Ok(Drawn { draw, text: checksum(&planned.plan.to_string()), planned })
    }

    /// Returns `keep` of the plan by undisturbed prices and of up to `plans` other plans that differ. Once the time is up,
    /// nothing more is drawn.
    fn distinct<T>(
        &self,
        options: &mut Options,
        plans: usize,
        end: Option<Instant>,
        keep: impl Fn(Drawn) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut known = BTreeSet::new();
        let mut kept = Vec::new();
        for draw in std::iter::once(None).chain((0..plans * DRAWS).map(Some)) {
            let late = end.is_some_and(|end| Instant::now() > end);
            if kept.len() > plans || late && draw.is_some() {
                break;
            }
            let drawn = self.one(options, draw)?;
            if known.insert(drawn.text.clone()) {
                kept.push(keep(drawn));
            }
        }
        Ok(kept)
    }
}

/// Returns the positions of `wanted` numbers that spread evenly over all of them, in ascending order.
/// Starting with the first number, it repeatedly takes the one farthest from all taken ones (Gonzalez,
/// *Clustering to minimize the maximum intercluster distance*, 1985).
fn evenly(numbers: &[f64], wanted: usize) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    let mut distance = vec![f64::INFINITY; numbers.len()];
    let mut next = (!numbers.is_empty()).then_some(0);
    while let Some(at) = next.filter(|_| taken.len() < wanted) {
        taken.insert(at);
        for (other, distance) in distance.iter_mut().enumerate() {
            *distance = distance.min((numbers[other] - numbers[at]).abs());
        }
        // Among equally distant ones, take the first.
        let left = (0..numbers.len()).rev().filter(|at| !taken.contains(at));
        next = left.max_by(|a, b| distance[*a].total_cmp(&distance[*b]));
    }
    taken.into_iter().collect()
}

/// The result of timing plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The position of the fastest plan.
    pub best: usize,
    /// The median seconds of one run of each plan, as if all had run at the same time: the seconds of the
    /// first plan, times the ratio to it in the same rounds.
    pub seconds: Vec<f64>,
    /// Half the distance between the quartiles, as a share of the median.
    pub spread: Vec<f64>,
    /// The same, from every second round only of the turn in which the plan first ran, and from the other
    /// rounds. The difference between the two is random.
    pub halves: [Vec<f64>; 2],
}

/// Times whole plans: each in turns with the first plan and the best so far, and the fastest ones again at
/// the end. `told` is called with the number of plans done.
///
/// # Errors
/// An error if a plan cannot be loaded or run.
pub fn time(
    plans: &[(&Graph, &Plan)],
    backends: &Backends,
    rounds: usize,
    told: &mut dyn FnMut(usize),
) -> Result<Timed, Error> {
    let mut seconds = vec![f64::NAN; plans.len()];
    let mut spread = vec![0.0; plans.len()];
    let mut halves = [seconds.clone(), seconds.clone()];
    let mut best = 0;
    let mut from = 1;
    let limits = Rounds::exactly(rounds);
    loop {
        let mut entrants = vec![0];
        entrants.extend((best != 0).then_some(best));
        let (first, mut bytes) = (from, 0);
        while from < plans.len() && entrants.len() <= TURN {
            bytes += plans[from].0.constant_bytes();
            if from > first && bytes > BYTES {
                break;
            }
            entrants.push(from);
            from += 1;
        }
        let programs: Vec<_> = entrants.iter().map(|at| plans[*at]).collect();
        let race = race(&programs, backends, limits)?;
        let (base, base_spread) = median(&race.times(0));
        if seconds[0].is_nan() {
            (seconds[0], spread[0]) = (base, base_spread);
            halves.iter_mut().for_each(|half| half[0] = base);
        }
        let incumbent = entrants.iter().position(|at| *at == best).unwrap_or(0);
        for (place, at) in entrants.iter().enumerate() {
            if seconds[*at].is_nan() {
                let ratios = race.ratios(place, 0);
                let (ratio, share) = median(&ratios);
                (seconds[*at], spread[*at]) = (seconds[0] * ratio, share);
                for (half, from) in halves.iter_mut().zip(0..) {
                    let ratios: Vec<f64> = ratios.iter().skip(from).step_by(2).copied().collect();
                    half[*at] = seconds[0] * if ratios.is_empty() { ratio } else { median(&ratios).0 };
                }
            }
        }
        best = entrants[race.leader(0, incumbent, entrants.len())];
        told(from);
        if from >= plans.len() {
            if !again(plans, backends, limits, best, &mut seconds)? {
                best = 0;
            }
            return Ok(Timed { best, seconds, spread, halves });
        }
    }
}

/// Times the best plan and the fastest plans of several turns again, together with the first. Of many equally fast plans,
/// those that were lucky come out ahead, but not twice. Returns whether the best one still is clearly faster than the first.
fn again(
    plans: &[(&Graph, &Plan)],
    backends: &Backends,
    limits: Rounds,
    best: usize,
    seconds: &mut [f64],
) -> Result<bool, Error> {
    if plans.len() <= TURN + 1 {
        return Ok(true);
    }
    let mut order: Vec<usize> = (1..plans.len()).collect();
    order.sort_by(|a, b| (*b == best).cmp(&(*a == best)).then(seconds[*a].total_cmp(&seconds[*b])));
    let (mut entrants, mut bytes) = (vec![0], 0);
    for at in order.into_iter().take(TURN) {
        bytes += plans[at].0.constant_bytes();
        if entrants.len() > 1 && bytes > BYTES {
            break;
        }
        entrants.push(at);
    }
    let programs: Vec<_> = entrants.iter().map(|at| plans[*at]).collect();
    let race = race(&programs, backends, limits)?;
    for (place, at) in entrants.iter().enumerate().skip(1) {
        seconds[*at] = seconds[0] * median(&race.ratios(place, 0)).0;
    }
    // The best one comes after the first, unless it is the first.
    Ok(best == 0 || race.beats(1, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_numbers_spread_from_the_least_to_the_greatest() {
        // Many prices are near the best one, as those of plans are.
        let prices = [1.0, 1.01, 1.02, 1.03, 1.04, 2.0, 1.5, 1.26];
        assert_eq!(evenly(&prices, 1), [0], "the first always stays");
        assert_eq!(evenly(&prices, 2), [0, 5]);
        assert_eq!(evenly(&prices, 4), [0, 5, 6, 7]);
        assert_eq!(evenly(&prices, 99), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(evenly(&[1.0, 1.0, 1.0], 2), [0, 1], "of equal ones the first");
        assert_eq!(evenly(&[], 2), [0; 0]);
    }

    #[test]
    fn a_name_stands_for_its_disturbance() {
        assert_eq!(noise("sample-3.17"), Some(Noise::draw(3, 17)));
        for other in ["measured", "sample-", "sample-3", "sample-x.1", "sample-1.y"] {
            assert_eq!(noise(other), None, "{other}");
        }
    }
}

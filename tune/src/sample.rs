//! Extraction by measured time alone: plans around the extracted one are timed whole, and the fastest stays.
//!
//! The sum of kernels' times is not quite the time of a plan, and no extraction knows the rest. So other good
//! plans are drawn, by extractions with disturbed prices ([`Noise`]), and run in turns with the best so far, a
//! few at a time. The budget is a number of plans, not of seconds; the same seed draws the same plans. It
//! claims no more than that its plan was no slower than the one it began with, where both were timed.

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

/// How many plans are drawn, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Plans that differ from each other.
    pub plans: usize,
    /// The seed.
    pub seed: u64,
}

/// Draws for each plan that is wanted: most disturbances change nothing where one candidate is far ahead.
const DRAWS: usize = 6;
/// Plans that are timed in turns with the best so far, and the bytes of constants that they may hold.
const TURN: usize = 4;
const BYTES: usize = 2 << 30;

/// A plan that was drawn.
#[derive(Debug)]
pub struct Drawn {
    /// Its number among the draws; none for the plan by the prices as they are.
    pub draw: Option<usize>,
    /// The checksum of its text.
    pub text: String,
    /// The program and its plan.
    pub planned: Planned,
}

impl Drawn {
    /// What the plan is called in decisions and reports.
    pub fn way(&self, seed: u64) -> String {
        self.draw.map_or_else(|| "extracted".to_owned(), |draw| format!("{WAY}{seed}.{draw}"))
    }
}

/// How the names of drawn plans begin.
const WAY: &str = "sample-";

/// The disturbance that a name stands for; `None` for other ways.
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

/// The extracted plan, and plans around it, by disturbances so many times as wide as usual, that differ from it and
/// from each other, fewer than were asked for where no more were found.
///
/// # Errors
/// As compiling.
pub fn draw(
    saturated: &Saturated,
    options: &mut Options,
    sampling: Sampling,
    spread: usize,
) -> Result<Vec<Drawn>, Error> {
    let draws = Draws { saturated, seed: sampling.seed, spread };
    draws.distinct(options, sampling.plans, |drawn| drawn)
}

/// The same, of `among` times as many plans those whose prices, by the cost model itself, spread most evenly from the
/// least to the greatest. Most plans around the best are nearly as good as it, and by their times the order of a few
/// hundredths could be told, and no more.
///
/// # Errors
/// As compiling.
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
    // So many plans at once would hold too much: those that stay are extracted again.
    let price = |one: &Drawn| one.planned.plan.seconds().max(f64::MIN_POSITIVE).ln();
    let candidates = draws.distinct(options, sampling.plans * among, |one| (one.draw, price(&one)))?;
    let prices: Vec<f64> = candidates.iter().map(|(_, price)| *price).collect();
    evenly(&prices, sampling.plans + 1).into_iter().map(|at| draws.one(options, candidates[at].0)).collect()
}

/// Where plans are drawn from.
struct Draws<'a> {
    saturated: &'a Saturated,
    seed: u64,
    spread: usize,
}

impl Draws<'_> {
    /// The plan of a draw; that of the prices as they are for none.
    fn one(&self, options: &mut Options, draw: Option<usize>) -> Result<Drawn, Error> {
        disturb(options, draw.map(|draw| Noise::draw(self.seed, draw).wider(self.spread)));
        let found = options.plan(self.saturated);
        disturb(options, None);
        let planned = found?;
        Ok(Drawn { draw, text: checksum(&planned.plan.to_string()), planned })
    }

    /// What is kept of the plan by the prices as they are, and of so many others that differ, as far as they are found.
    fn distinct<T>(
        &self,
        options: &mut Options,
        plans: usize,
        keep: impl Fn(Drawn) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut known = BTreeSet::new();
        let mut kept = Vec::new();
        for draw in std::iter::once(None).chain((0..plans * DRAWS).map(Some)) {
            if kept.len() > plans {
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

/// So many places of some numbers, in rising order, that spread evenly over them: from the first on, the one farthest
/// from all that were taken (Gonzalez, *Clustering to minimize the maximum intercluster distance*, 1985).
fn evenly(numbers: &[f64], wanted: usize) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    let mut distance = vec![f64::INFINITY; numbers.len()];
    let mut next = (!numbers.is_empty()).then_some(0);
    while let Some(at) = next.filter(|_| taken.len() < wanted) {
        taken.insert(at);
        for (other, distance) in distance.iter_mut().enumerate() {
            *distance = distance.min((numbers[other] - numbers[at]).abs());
        }
        // Of those that are as far the first.
        let left = (0..numbers.len()).rev().filter(|at| !taken.contains(at));
        next = left.max_by(|a, b| distance[*a].total_cmp(&distance[*b]));
    }
    taken.into_iter().collect()
}

/// What came of timing plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The place of the fastest.
    pub best: usize,
    /// For each plan the median seconds of one run, as if all had run at once: those of the first, times
    /// the ratios by which others were slower in the same rounds.
    pub seconds: Vec<f64>,
    /// Half the distance between the quartiles, as a share of the median.
    pub spread: Vec<f64>,
    /// The same by every other round alone of the turn that each was first in, and by those between: how far they
    /// differ is chance.
    pub halves: [Vec<f64>; 2],
}

/// Times plans whole: each with the first one and the best so far, in turns, and the fastest ones again. `told` hears
/// how many are done.
///
/// # Errors
/// A plan that cannot be loaded or run.
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
        let mut ahead = incumbent;
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
            if race.beats(place, ahead) {
                ahead = place;
            }
        }
        best = entrants[ahead];
        told(from);
        if from >= plans.len() {
            again(plans, backends, limits, &mut seconds)?;
            // Who was ahead of one that was ahead of the first may not be so of the first itself.
            if seconds[best] > seconds[0] {
                best = 0;
            }
            return Ok(Timed { best, seconds, spread, halves });
        }
    }
}

/// Times the fastest plans of several turns once more, with the first: of many that are as fast, those come out ahead
/// that chance had favoured, and it does so once.
fn again(
    plans: &[(&Graph, &Plan)],
    backends: &Backends,
    limits: Rounds,
    seconds: &mut [f64],
) -> Result<(), Error> {
    if plans.len() <= TURN + 1 {
        return Ok(());
    }
    let mut order: Vec<usize> = (1..plans.len()).collect();
    order.sort_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_spreads_from_the_least_to_the_greatest() {
        // Many are near the best, as plans are.
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

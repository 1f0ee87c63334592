//! Extraction by measured time alone: plans around the extracted one are timed whole, and the fastest stays.
//!
//! The sum of kernels' times is not quite the time of a plan, and no extraction knows the rest. So other good
//! plans are drawn, by extractions with disturbed prices ([`Noise`]), and run in turns with the best so far, a
//! few at a time. The budget is a number of plans, not of seconds; the same seed draws the same plans. It
//! claims no more than that its plan was no slower than the one it began with, where both were timed.

use super::checksum;
use super::clock::median;
use super::race::{Rounds, race};
use crate::compile::Options;
use crate::cost::Noise;
use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::pipeline::PassSpec;
use crate::pass::{self, Chosen};
use crate::plan::Plan;
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
    /// The plan.
    pub chosen: Chosen,
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
    for pass in &mut options.pipeline.passes {
        if let PassSpec::Extract(settings) = pass {
            settings.noise = noise;
        }
    }
}

/// The extracted plan, and plans around it, by disturbances so many times as wide as usual, that differ from it and from each other, fewer than were asked for
/// where no more were found.
///
/// # Errors
/// As compiling.
pub fn draw(
    egraph: &EGraph,
    graph: &Graph,
    options: &mut Options,
    sampling: Sampling,
    spread: usize,
) -> Result<Vec<Drawn>, Error> {
    let one = |options: &Options| -> Result<(String, Chosen), Error> {
        let chosen = pass::planned(egraph, &options.context(graph))?;
        Ok((checksum(&chosen.plan.to_string()), chosen))
    };
    let (text, chosen) = one(options)?;
    let mut known = BTreeSet::from([text.clone()]);
    let mut drawn = vec![Drawn { draw: None, text, chosen }];
    for draw in 0..sampling.plans * DRAWS {
        if drawn.len() > sampling.plans {
            break;
        }
        disturb(options, Some(Noise::draw(sampling.seed, draw).wider(spread)));
        let found = one(options);
        disturb(options, None);
        let (text, chosen) = found?;
        if known.insert(text.clone()) {
            drawn.push(Drawn { draw: Some(draw), text, chosen });
        }
    }
    Ok(drawn)
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
}

/// Times plans whole: each with the first one and the best so far, in turns. `told` hears how many are done.
///
/// # Errors
/// A plan that cannot be loaded or run.
pub fn time(plans: &[(&Graph, &Plan)], rounds: usize, told: &mut dyn FnMut(usize)) -> Result<Timed, Error> {
    let mut seconds = vec![f64::NAN; plans.len()];
    let mut spread = vec![0.0; plans.len()];
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
        let race = race(&programs, limits)?;
        let (base, base_spread) = median(&race.times(0));
        if seconds[0].is_nan() {
            (seconds[0], spread[0]) = (base, base_spread);
        }
        let incumbent = entrants.iter().position(|at| *at == best).unwrap_or(0);
        let mut ahead = incumbent;
        for (place, at) in entrants.iter().enumerate() {
            if seconds[*at].is_nan() {
                let (ratio, share) = median(&race.ratios(place, 0));
                (seconds[*at], spread[*at]) = (seconds[0] * ratio, share);
            }
            if race.beats(place, ahead) {
                ahead = place;
            }
        }
        best = entrants[ahead];
        told(from);
        if from >= plans.len() {
            // Who was ahead of one that was ahead of the first may not be so of the first itself.
            if seconds[best] > seconds[0] {
                best = 0;
            }
            return Ok(Timed { best, seconds, spread });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_its_disturbance() {
        assert_eq!(noise("sample-3.17"), Some(Noise::draw(3, 17)));
        for other in ["measured", "sample-", "sample-3", "sample-x.1", "sample-1.y"] {
            assert_eq!(noise(other), None, "{other}");
        }
    }
}

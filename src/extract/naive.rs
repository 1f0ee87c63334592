//! The extractor against which the others are tested: it tries every selection, and is short enough to trust.

use super::canonical::{Trees, Work, price};
use super::node::Node;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report};
use serde::{Deserialize, Serialize};

/// Tries all selections by branch and bound. For tests and tiny graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naive;

/// The number of choices that it may try.
const STEPS: usize = 20_000_000;

impl Extractor for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn claim(&self) -> Claim {
        Claim::Optimal
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let work = Work::new(problem)?;
        let best = Trees::new(&work.classes).choice;
        let best_cost = price(&work.classes, &work.roots, &best);
        let choice = vec![None; work.classes.len()];
        let mut search = Search { classes: &work.classes, choice, best, best_cost, steps: 0 };
        if !search.go(&work.roots, 0.0) {
            return Err(ExtractError::TooLarge { extractor: "naive", steps: STEPS });
        }
        let report = Report {
            method: "all selections".to_owned(),
            size: work.size(),
            reduced: work.size(),
            states: search.steps,
            ..Report::default()
        };
        Ok(work.finish(&search.best, search.best_cost, true, report))
    }
}

struct Search<'a> {
    classes: &'a [Vec<Node>],
    choice: Vec<Option<u32>>,
    best: Vec<Option<u32>>,
    best_cost: f64,
    steps: usize,
}

impl Search<'_> {
    /// Chooses for the last of the pending classes that has no choice, in every way that is acyclic and not too
    /// expensive. Returns `false` if the steps are used up.
    fn go(&mut self, pending: &[u32], cost: f64) -> bool {
        self.steps += 1;
        if self.steps > STEPS {
            return false;
        }
        if cost >= self.best_cost {
            return true;
        }
        let Some(last) = pending.iter().rposition(|&class| self.choice[class as usize].is_none()) else {
            self.best_cost = cost;
            self.best.clone_from(&self.choice);
            return true;
        };
        let class = pending[last];
        for (place, node) in self.classes[class as usize].iter().enumerate() {
            if !node.children.iter().any(|&child| self.reaches(child, class)) {
                self.choice[class as usize] = Some(place as u32);
                let pending = [&pending[..last], &node.children[..]].concat();
                if !self.go(&pending, cost + node.cost) {
                    return false;
                }
                self.choice[class as usize] = None;
            }
        }
        true
    }

    /// Returns whether a class depends on another one by the choices made so far.
    fn reaches(&self, from: u32, to: u32) -> bool {
        from == to
            || self.choice[from as usize].is_some_and(|place| {
                let node = &self.classes[from as usize][place as usize];
                node.children.iter().any(|&child| self.reaches(child, to))
            })
    }
}

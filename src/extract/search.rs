//! A local search that gives a good selection and a good bound for problems that are too large for the frontier, and
//! an extractor that uses only this search.

use super::bound::chain;
use super::canonical::{Trees, Work, price};
use super::component::Components;
use super::greedy::{SETTLE_STEPS, settle};
use super::landmark::landmarks;
use super::reduce::Reduced;
use super::relax::Shared;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report, Size};
use super::{neighbourhood, order, part, share};
use crate::ron::at_least;
use serde::{Deserialize, Serialize};

/// Local search that starts from the greedy selection, and a lower bound by landmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LocalSearch {
    /// The number of candidates and states that it may visit.
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub steps: usize,
}

impl LocalSearch {
    /// The default limit: some seconds for a problem with ten thousand candidates.
    pub(crate) const DEFAULT: Self = Self { steps: 400_000_000 };
}

impl Default for LocalSearch {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The divisor of the steps for a hurried search.
const HURRY: usize = 400;

impl Extractor for LocalSearch {
    fn name(&self) -> &'static str {
        "local-search"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn hurried(&self) -> Option<Box<dyn Extractor>> {
        Some(Box::new(Self { steps: (self.steps / HURRY).max(1) }))
    }

    fn with_effort(&self, share: f64) -> Option<Box<dyn Extractor>> {
        Some(Box::new(Self { steps: part(self.steps, share) }))
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let whole = Work::new(problem)?;
        let reduced = Reduced::new(&whole);
        let components = Components::new(&reduced.work);
        let mut report = Report::new(&whole, &reduced, &components);
        let plan = order::down(&reduced.work, &components);
        let shared = Shared::new(&reduced.work, &plan, &components, self.steps);
        let found = self.search(&reduced.work, &shared, &mut report);
        let choice = reduced.restore(&found.choice);
        Ok(whole.finish(&choice, (found.bound + reduced.sunk) * SLACK, false, report))
    }
}

/// The bound is summed in another order than the cost, and this much of it may be rounding.
pub(super) const SLACK: f64 = 1.0 - 1e-12;

/// A selection, a bound, and a bound for each candidate.
pub(super) struct Found {
    pub choice: Vec<Option<u32>>,
    pub cost: f64,
    pub bound: f64,
    /// For each class and candidate: every selection that contains it costs at least this.
    pub least: Vec<Vec<f64>>,
}

impl LocalSearch {
    /// Searches a reduced problem.
    pub(super) fn search(&self, work: &Work, shared: &Shared, report: &mut Report) -> Found {
        let marks = landmarks(&work.classes, &work.roots, self.steps);
        report.states += marks.steps;
        let bound = chain(&work.classes, &work.roots).max(marks.bound);
        let mut least = marks.beyond;
        least.iter_mut().flatten().for_each(|beyond| *beyond += marks.bound);
        let trees = Trees::new(&work.classes).choice;
        let eased = shared.eased(work);
        let starts = [Some(work), eased.as_ref()].into_iter().flatten().map(|prices| {
            let found = settle(&prices.classes, SETTLE_STEPS / 10);
            let found = found.unwrap_or_else(|| Trees::new(&prices.classes).choice);
            let mut choice: Vec<Option<u32>> = found.iter().zip(&trees).map(|(a, b)| a.or(*b)).collect();
            share::improve(&work.classes, &work.roots, &mut choice);
            (price(&work.classes, &work.roots, &choice), choice)
        });
        let best = starts.min_by(|a, b| a.0.total_cmp(&b.0));
        let mut choice = best.map(|(_, choice)| choice).unwrap_or(trees);
        let searched = neighbourhood::improve(work, &mut choice, self.steps / SHARE);
        report.states += searched.steps;
        report.limit = searched.limited.then(|| format!("{} steps of local search", self.steps));
        report.method = "local search".to_owned();
        let cost = price(&work.classes, &work.roots, &choice);
        Found { choice, cost, bound, least }
    }
}

/// A neighbourhood costs this many times the number of its visits, because it is reduced first.
const SHARE: usize = 200;

impl Report {
    /// Reports the sizes that are known before the search.
    pub(super) fn new(whole: &Work, reduced: &Reduced, components: &Components) -> Self {
        let classes = &reduced.work.classes;
        Self {
            size: whole.size(),
            reduced: Size {
                classes: classes.iter().filter(|nodes| !nodes.is_empty()).count(),
                nodes: classes.iter().map(Vec::len).sum(),
            },
            components: components.len(),
            largest_component: components.largest(),
            ..Self::default()
        }
    }
}

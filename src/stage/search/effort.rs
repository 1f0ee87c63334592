//! The work of a search that extracts many times. The work is counted over the whole search; time is never measured,
//! so that results can be repeated.
//!
//! Each extraction has its own limits, and a search may need hundreds of extractions. After one has reached its
//! limits, later ones only get a small share of them, because they would prove little. All extractions together have
//! a budget, and a search that ends because of it reports that.

use crate::extract::{ExtractError, Extraction, Extractor, Problem};
use std::cell::Cell;

/// An extractor, with the work that may still be done.
pub(in crate::stage) struct Effort<'a> {
    own: &'a dyn Extractor,
    /// The same extractor with a share of the limits; `None` if it has no limits.
    quick: Option<Box<dyn Extractor>>,
    /// The work that is counted for an extraction that reached a limit: by the extractor itself, and by the quick
    /// one.
    allowed: [usize; 2],
    hasty: Cell<bool>,
    /// The remaining work; `None` outside a search.
    left: Cell<Option<usize>>,
}

/// The number of steps of a whole search. A step takes between some tenths of a microsecond and one microsecond.
pub(in crate::stage) const WORK: usize = 12_000_000;
/// The steps for each candidate of a problem, and for each candidate that remains after reduction. The second number
/// applies if the first search does not end with a proof, so that local search and smaller and smaller problems
/// follow.
const EACH: [usize; 2] = [3, 40];
/// The method of an extraction whose first search ends with a proof.
const AT_ONCE: &str = "frontier";
/// The number of visits in local search that count as one step.
const VISITS: usize = 16;
/// The steps for each plan.
const PLAN: usize = 10_000;

impl<'a> Effort<'a> {
    /// Returns the effort of an extractor, without a budget.
    pub(crate) fn new(own: &'a dyn Extractor) -> Self {
        let quick = own.hurried();
        let allowed = [own.work(), quick.as_ref().map_or(0, |quick| quick.work())];
        Self { own, quick, allowed, hasty: Cell::new(false), left: Cell::new(None) }
    }

    /// Starts the budget of a search. The first extraction shows how hard the problem is.
    pub(crate) fn begin(&self, first: &Extraction) {
        self.hasty.set(first.report.limit.is_some());
        self.left.set(Some(WORK));
    }

    /// Returns whether the quick extractor is used.
    pub(crate) fn is_hasty(&self) -> bool {
        self.hasty.get()
    }

    /// Returns whether the budget is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get() == Some(0)
    }

    /// Returns the work that was done in the search.
    pub(crate) fn spent(&self) -> usize {
        self.left.get().map_or(0, |left| WORK - left)
    }

    /// Extracts a program; `None` if the budget is used up.
    pub(crate) fn extract(&self, problem: &Problem) -> Option<Result<Extraction, ExtractError>> {
        if self.is_spent() {
            return None;
        }
        let quick = self.quick.as_deref().filter(|_| self.is_hasty());
        let found = quick.unwrap_or(self.own).extract(problem);
        // The program is built from the choice, and an extractor may come from another crate.
        let found = found.and_then(|found| problem.cost(&found.choice).map(|_| found));
        if let Some(left) = self.left.get() {
            let size: usize = problem.classes.iter().map(|class| class.nodes.len()).sum();
            let more = found.as_ref().map_or(0, |Extraction { report, .. }| {
                if report.limit.is_none() && report.method == AT_ONCE {
                    return report.states;
                }
                let in_vain = match report.limit {
                    Some(_) => self.allowed[usize::from(quick.is_some())].min(WORK / 4),
                    None => 0,
                };
                report.reduced.nodes * EACH[1] + report.states / VISITS + in_vain
            });
            if found.as_ref().is_ok_and(|found| found.report.limit.is_some()) {
                self.hasty.set(true);
            }
            self.left.set(Some(left.saturating_sub(size * EACH[0] + more + PLAN)));
        }
        Some(found)
    }
}

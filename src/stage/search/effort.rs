//! The work of a search that extracts many times: counted over all of it, never timed.
//!
//! One extraction has limits of its own, and a search may need hundreds. Once one has reached its limits, those
//! after it have a small share of them, since what they would prove is not much; and all of them together have
//! a budget. What was left undone for its sake is told.

use crate::extract::{ExtractError, Extraction, Extractor, Problem};
use std::cell::Cell;

/// Who extracts, and how much work may still be done.
pub(in crate::stage) struct Effort<'a> {
    own: &'a dyn Extractor,
    /// The same with a share of the limits; `None` where there are none.
    quick: Option<Box<dyn Extractor>>,
    /// Work that an extraction counts for where it reached a limit: of its own extractor, and of the quick one.
    allowed: [usize; 2],
    hasty: Cell<bool>,
    /// Work that is left; `None` outside of a search.
    left: Cell<Option<usize>>,
}

/// The steps of a search in all, of some tenths of a microsecond up to a microsecond each.
pub(in crate::stage) const WORK: usize = 12_000_000;
/// Steps for each candidate of a problem, and for each that reduction leaves where the first search does not end
/// with a proof, so that local search and ever smaller problems follow.
const EACH: [usize; 2] = [3, 40];
/// The method of a proof at the first search.
const AT_ONCE: &str = "frontier";
/// Visits of local search that are a step.
const VISITS: usize = 16;
/// Steps for each plan.
const PLAN: usize = 10_000;

impl<'a> Effort<'a> {
    /// Of an extractor, without a budget.
    pub(crate) fn new(own: &'a dyn Extractor) -> Self {
        let quick = own.hurried();
        let allowed = [own.work(), quick.as_ref().map_or(0, |quick| quick.work())];
        Self { own, quick, allowed, hasty: Cell::new(false), left: Cell::new(None) }
    }

    /// A search begins, after an extraction that says how hard the problem is.
    pub(crate) fn begin(&self, first: &Extraction) {
        self.hasty.set(first.report.limit.is_some());
        self.left.set(Some(WORK));
    }

    /// Whether extractions are quick ones.
    pub(crate) fn is_hasty(&self) -> bool {
        self.hasty.get()
    }

    /// Whether there is no work left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get() == Some(0)
    }

    /// Work that was done in the search.
    pub(crate) fn spent(&self) -> usize {
        self.left.get().map_or(0, |left| WORK - left)
    }

    /// Extracts; `None` where there is no work left.
    pub(crate) fn extract(&self, problem: &Problem) -> Option<Result<Extraction, ExtractError>> {
        if self.is_spent() {
            return None;
        }
        let quick = self.quick.as_deref().filter(|_| self.is_hasty());
        let found = quick.unwrap_or(self.own).extract(problem);
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

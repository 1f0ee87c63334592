//! A good selection and a good bound for what is too large to enumerate, and the extractor that makes do
//! with them.

use super::bound::chain;
use super::canonical::{Trees, Work, price};
use super::component::Components;
use super::frontier::{Caps, Excess, Network, Plan};
use super::greedy::{SETTLE_STEPS, settle};
use super::landmark::landmarks;
use super::message::messages;
use super::reduce::Reduced;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report, Size};
use super::{bound, neighbourhood, order, share};

/// Local search from the best of several quick selections, and the best of several lower bounds.
#[derive(Clone, Copy, Debug)]
pub struct LocalSearch {
    /// Candidates and states that it may visit.
    pub steps: usize,
    /// States that a beam keeps.
    pub beam: usize,
}

impl LocalSearch {
    /// With the default limits: some seconds on what has ten thousand candidates.
    pub const DEFAULT: Self = Self { steps: 60_000_000, beam: 500 };
}

impl Extractor for LocalSearch {
    fn name(&self) -> &'static str {
        "local-search"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let whole = Work::new(problem)?;
        let reduced = Reduced::new(&whole);
        let components = Components::new(&reduced.work);
        let mut report = Report::of(&whole, &reduced, &components);
        let worth = bound::shares(&reduced.work.classes, &Trees::new(&reduced.work.classes).cost);
        let network = Network::new(&reduced.work, &components, &worth);
        let plans: Vec<Plan> = network.iter().map(|_| order::down(&reduced.work, &components)).collect();
        let found = self.search(&reduced.work, &components, network.as_ref(), &plans, &mut report);
        report.limit = Some(format!("{} steps of local search", self.steps));
        let choice = reduced.restore(&found.choice);
        Ok(whole.finish(&choice, (found.bound + reduced.sunk) * SLACK, false, report))
    }
}

/// A bound is a sum taken in another order than the cost: this much of it may be rounding.
pub(super) const SLACK: f64 = 1.0 - 1e-12;

/// A selection, a bound, and what is known of each candidate.
pub(super) struct Found {
    pub choice: Vec<Option<u32>>,
    pub cost: f64,
    pub bound: f64,
    /// For each class and candidate: no cheapest selection that needs it costs less.
    pub least: Vec<Vec<f64>>,
}

impl LocalSearch {
    /// Searches a reduced problem. Beams take the given orders.
    pub(super) fn search(
        &self,
        work: &Work,
        components: &Components,
        network: Option<&Network<'_>>,
        plans: &[Plan],
        report: &mut Report,
    ) -> Found {
        let marks = landmarks(&work.classes, &work.roots, self.steps / 4);
        let told = messages(work, components, self.steps / 4);
        let mut bound = chain(&work.classes, &work.roots).max(marks.bound);
        let mut least = marks.beyond;
        least.iter_mut().flatten().for_each(|beyond| *beyond += marks.bound);
        report.states += marks.steps;
        let mut starts = Vec::new();
        if let Some(told) = told {
            bound = bound.max(told.bound);
            for (least, beyond) in least.iter_mut().zip(&told.beyond) {
                // What no option has is in no cheapest selection.
                for (place, least) in least.iter_mut().enumerate() {
                    *least = least.max(told.bound + beyond.get(place).unwrap_or(&f64::INFINITY));
                }
            }
            report.states += told.steps;
            starts.push(("messages", told.choice));
        }
        let greedy = settle(&work.classes, SETTLE_STEPS / 10).map(|choice| ("cheapest DAGs", choice));
        starts.push(greedy.unwrap_or_else(|| ("cheapest trees", Trees::new(&work.classes).choice)));
        for plan in plans {
            let caps = Caps { states: self.beam, work: self.steps / 4, options: super::Limits::DEFAULT.options };
            if let Some(Ok(outcome)) = network.map(|network| network.run(plan, caps, Excess::Drop)) {
                report.states += outcome.states;
                report.peak_states = report.peak_states.max(outcome.peak);
                starts.push(("frontier as a beam", outcome.choice));
            }
        }
        let priced = starts.into_iter().map(|(method, choice)| (price(&work.classes, &work.roots, &choice), method, choice));
        let (_, method, mut choice) =
            priced.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is the greedy selection");
        share::improve(&work.classes, &work.roots, &mut choice);
        report.states += neighbourhood::improve(work, &mut choice, self.steps / 2);
        report.method = format!("{method} and local search");
        let cost = price(&work.classes, &work.roots, &choice);
        Found { choice, cost, bound, least }
    }
}

impl Report {
    /// What there is to say before the search.
    pub(super) fn of(whole: &Work, reduced: &Reduced, components: &Components) -> Self {
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

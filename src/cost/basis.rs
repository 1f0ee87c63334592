//! The lines of the table of times on which a choice depends.

use super::stored::{Decision, Stored};
use super::{Entry, Measured};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In what a table of times differs from what a [`Basis`] has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Differs {
    /// Kernels have other lines in the table, or none.
    #[error("{} of {all} lines of the table of times", kernels.len())]
    Lines {
        /// The keys of these kernels, in order.
        kernels: Vec<String>,
        /// The number of all kernels of the basis.
        all: usize,
    },
    /// Another plan won the comparison with the plan that follows from the times alone.
    #[error("another plan was the fastest")]
    Winner {
        /// The key of the plan that follows from the times alone.
        plan: String,
        /// The winner of the basis, by its method and key; `None` if there was no comparison.
        kept: Option<(String, String)>,
        /// The winner of the table.
        found: Option<(String, String)>,
    },
}

/// The lines of the table by which a plan was chosen. The same plan is chosen again if they are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// The lines of the kernels for which the extraction asked; `None` if there was none.
    pub lines: BTreeMap<String, Option<String>>,
    /// The plan that follows from the times alone, and the winner of the comparison with it: its method and plan.
    pub decision: (String, Option<(String, String)>),
}

impl Basis {
    /// Returns the basis of a choice by a table: the kernels for which the model was asked, and the plan that follows
    /// from the times alone.
    pub fn new(stored: &Stored, measured: Option<&Measured>, plan: &str) -> Self {
        let asked = measured.map(|measured| measured.asked.keys()).unwrap_or_default();
        let lines = asked.into_iter().map(|key| {
            let line = line(stored.table.entries.get(&key));
            (key, line)
        });
        Self { lines: lines.collect(), decision: (plan.to_owned(), decision(stored, plan)) }
    }

    /// Adds the missing lines to a table.
    pub fn add_to(&self, stored: &mut Stored) {
        for (key, line) in &self.lines {
            if let Some(entry) = line.as_deref().and_then(Entry::from_text) {
                stored.table.entries.entry(key.clone()).or_insert(entry);
            }
        }
        let (key, won) = &self.decision;
        if let Some((winner, plan)) = won {
            let decision = Decision { winner: winner.clone(), plan: plan.clone(), times: Vec::new() };
            stored.decisions.entry(key.clone()).or_insert(decision);
        }
    }

    /// Returns what differs in a table; `None` if it gives the same choice.
    pub fn differs(&self, stored: &Stored) -> Option<Differs> {
        let other = self.lines.iter().filter(|(key, kept)| line(stored.table.entries.get(*key)) != **kept);
        let kernels: Vec<String> = other.map(|(key, _)| key.clone()).collect();
        if !kernels.is_empty() {
            return Some(Differs::Lines { kernels, all: self.lines.len() });
        }
        let (plan, kept) = &self.decision;
        let found = decision(stored, plan);
        (found != *kept).then(|| Differs::Winner { plan: plan.clone(), kept: kept.clone(), found })
    }
}

fn line(entry: Option<&Entry>) -> Option<String> {
    entry.map(Entry::to_text)
}

fn decision(stored: &Stored, plan: &str) -> Option<(String, String)> {
    stored.decisions.get(plan).map(|decision| (decision.winner.clone(), decision.plan.clone()))
}

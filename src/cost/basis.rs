//! The lines of the table of times on which a choice depends.

use super::stored::{Decision, Stored};
use super::{Entry, Measured};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

    /// Returns a description of the differences in a table; `None` if it gives the same choice.
    pub fn differs(&self, stored: &Stored) -> Option<String> {
        let other = self.lines.iter().filter(|(key, kept)| line(stored.table.entries.get(*key)) != **kept);
        let (plan, won) = &self.decision;
        match other.count() {
            0 if decision(stored, plan) == *won => None,
            0 => Some("another plan was the fastest".to_owned()),
            count => Some(format!("{count} of {} lines of the table of times", self.lines.len())),
        }
    }
}

fn line(entry: Option<&Entry>) -> Option<String> {
    entry.map(Entry::to_text)
}

fn decision(stored: &Stored, plan: &str) -> Option<(String, String)> {
    stored.decisions.get(plan).map(|decision| (decision.winner.clone(), decision.plan.clone()))
}

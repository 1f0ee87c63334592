//! What of the table of times a choice rests on.

use super::stored::{Decision, Stored, read_entry, write_entry};
use super::{Entry, Measured};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lines of the table that a plan was chosen by. It would be chosen again as long as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// The lines of the kernels that the extraction asked for; `None` where there was none.
    pub lines: BTreeMap<String, Option<String>>,
    /// The plan that the times alone give, and which way and plan won the race against it.
    pub decision: (String, Option<(String, String)>),
}

impl Basis {
    /// The basis of a choice by a table: what the model was asked, and the plan that the times alone give.
    pub fn new(stored: &Stored, measured: Option<&Measured>, plan: &str) -> Self {
        let asked = measured.map(|measured| measured.asked.keys()).unwrap_or_default();
        let lines = asked.into_iter().map(|key| {
            let line = line(stored.table.entries.get(&key));
            (key, line)
        });
        Self { lines: lines.collect(), decision: (plan.to_owned(), decision(stored, plan)) }
    }

    /// Adds the lines that a table lacks.
    pub fn add_to(&self, stored: &mut Stored) {
        for (key, line) in &self.lines {
            if let Some(entry) = line.as_deref().and_then(read_entry) {
                stored.table.entries.entry(key.clone()).or_insert(entry);
            }
        }
        let (key, won) = &self.decision;
        if let Some((winner, plan)) = won {
            let decision = Decision { winner: winner.clone(), plan: plan.clone(), times: Vec::new() };
            stored.decisions.entry(key.clone()).or_insert(decision);
        }
    }

    /// What differs in a table, in words; `None` where the same would be chosen by it.
    pub fn differs(&self, stored: &Stored) -> Option<String> {
        let other = self.lines.iter().filter(|(key, kept)| line(stored.table.entries.get(*key)) != **kept);
        let (plan, won) = &self.decision;
        match other.count() {
            0 if decision(stored, plan) == *won => None,
            0 => Some("another plan won the race".to_owned()),
            count => Some(format!("{count} of {} lines of the table of times", self.lines.len())),
        }
    }
}

fn line(entry: Option<&Entry>) -> Option<String> {
    entry.map(write_entry)
}

fn decision(stored: &Stored, plan: &str) -> Option<(String, String)> {
    stored.decisions.get(plan).map(|decision| (decision.winner.clone(), decision.plan.clone()))
}

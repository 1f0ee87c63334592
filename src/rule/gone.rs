//! Rules that a set knows by name and does not have.

use super::{Rule, is_called, stem};
use std::sync::Arc;

/// A rule that was removed from a set, or left out of it.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    pub name: String,
    pub file: String,
    pub row: Vec<String>,
}

impl Gone {
    /// Whether a name in a pipeline stands for the rule.
    pub(super) fn is_called(&self, name: &str) -> bool {
        is_called(name, &self.name, stem(&self.file), &self.row)
    }
}

impl From<&Arc<Rule>> for Gone {
    fn from(rule: &Arc<Rule>) -> Self {
        Self { name: rule.name.clone(), file: rule.file.clone(), row: rule.row.clone() }
    }
}

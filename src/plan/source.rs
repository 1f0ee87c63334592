//! The origins of the nodes of a program.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The origin of a node of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The rules that led to it, the last one first, as `name (file:line)`.
    pub rules: Vec<String>,
    /// The rules that made the other nodes that the left sides of these rules matched, and so on.
    pub others: Vec<String>,
    /// The imported nodes from which all of them started, in the model's order.
    pub imported: Vec<SourceNode>,
    /// Whether the value was computed before, and is computed again to save memory.
    pub again: bool,
}

/// A node of the model as it was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceNode {
    /// The name of its value.
    pub name: Arc<str>,
    /// Its op.
    pub op: String,
}

impl fmt::Display for SourceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.op)
    }
}

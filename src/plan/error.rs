//! The reasons why a graph cannot be planned.

use crate::op::OpError;
use std::fmt;

/// The reason why a graph cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nodes without a kernel.
    #[error("{}", listed(.0))]
    NoKernel(
        /// All of these nodes, in the order of the graph.
        Vec<NoKernel>,
    ),
    /// The order of execution gave no valid order of this program.
    #[error("the order of execution `{order}` gives {why}")]
    Order {
        /// The name of the order.
        order: String,
        /// What it gave instead.
        why: &'static str,
    },
}

/// A node that has no kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKernel {
    /// The name of the value that it computes.
    pub name: String,
    /// Its op.
    pub op: String,
    /// The reason of the backend.
    pub why: OpError,
}

impl fmt::Display for NoKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: no kernel for `{}`: {}", self.name, self.op, self.why)
    }
}

fn listed(nodes: &[NoKernel]) -> String {
    match nodes {
        [only] => only.to_string(),
        several => several.iter().fold(format!("{} nodes have no kernel:", several.len()), |text, node| {
            format!("{text}\n  {node}")
        }),
    }
}

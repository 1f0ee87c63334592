//! The tasks of a program with their times, without a plan.

use super::subject::Subject;
use super::task::tasks;
use super::update::updates;
use super::{Asked, PlanError, constants, contracts};
use crate::graph::{Graph, INPUT, NodeId};
use crate::memory::Task;

/// The tasks of a program.
pub(crate) struct Work {
    /// The node of each task.
    pub nodes: Vec<NodeId>,
    pub tasks: Vec<Task>,
    /// The time of each task by its price, in seconds.
    pub seconds: Vec<f64>,
}

impl Work {
    /// Describes what runs of a program.
    ///
    /// # Errors
    /// A kernel is refused.
    pub fn new(graph: &Graph, threads: usize, ask: Asked<'_>) -> Result<Self, PlanError> {
        let constant = constants(graph);
        let contracts = contracts(graph, &constant, threads, ask)?;
        let nodes = runs(graph, &constant);
        let mut updates = updates(graph, &constant, &contracts);
        // The tasks are for orders in which next values already come after the readers of inputs.
        updates.values_mut().for_each(|update| update.after.clear());
        let subject =
            Subject { graph, constant: &constant, contracts: &contracts, updates: &updates, copy: &|_| 0.0 };
        let seconds = |node: &NodeId| contracts[node.index()].as_ref().map_or(0.0, |(_, seconds)| *seconds);
        Ok(Self { tasks: tasks(&subject, &nodes).0, seconds: nodes.iter().map(seconds).collect(), nodes })
    }
}

/// Returns the nodes that run or are views of what runs, in the order of the graph.
pub(super) fn runs(graph: &Graph, constant: &[bool]) -> Vec<NodeId> {
    let runs = graph.nodes().filter(|(id, node)| node.op != INPUT && !constant[id.index()]);
    runs.map(|(id, _)| id).collect()
}

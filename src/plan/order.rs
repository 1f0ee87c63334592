//! The candidate orders of execution of a program.

use super::PlanError;
use super::subject::Subject;
use crate::graph::{INPUT, NodeId};
use crate::memory::{Candidate, Order, Task};
use crate::op::ALIGN;
use std::collections::BTreeSet;

/// An order of execution.
pub(super) struct Sequence {
    /// The nodes that run, in order.
    pub nodes: Vec<NodeId>,
    /// The same as [`Candidate::reread`].
    pub reread: usize,
}

/// Returns the candidate orders of execution.
///
/// # Errors
/// An order does not run each task once, after its inputs.
pub(super) fn orders(subject: &Subject<'_>, order: &dyn Order) -> Result<Vec<Sequence>, PlanError> {
    let Subject { graph, constant, .. } = subject;
    let runs: Vec<NodeId> = graph
        .nodes()
        .filter(|(id, node)| node.op != INPUT && !constant[id.index()])
        .map(|(id, _)| id)
        .collect();
    let named = |candidate: Candidate| Sequence {
        reread: candidate.reread,
        nodes: candidate.tasks.into_iter().map(|task| runs[task]).collect(),
    };
    let tasks = tasks(subject, &runs);
    let candidates = order.candidates(&tasks);
    let wrong = |why| PlanError::Order { order: order.name().to_owned(), why };
    candidates.iter().try_for_each(|candidate| check(&candidate.tasks, &tasks)).map_err(wrong)?;
    Ok(candidates.into_iter().map(named).collect())
}

/// Checks that each task runs once, after its inputs.
fn check(order: &[usize], tasks: &[Task]) -> Result<(), &'static str> {
    let mut done = vec![false; tasks.len()];
    for &task in order {
        if done.get(task).is_none_or(|done| *done) {
            return Err("a task that is not in the program, or a task twice");
        }
        if tasks[task].inputs.iter().any(|input| !done[*input]) {
            return Err("a task before one whose result it reads");
        }
        done[task] = true;
    }
    if done.contains(&false) { Err("an order without one of the tasks") } else { Ok(()) }
}

/// Describes the nodes that run as tasks for the module `memory`.
fn tasks(subject: &Subject<'_>, runs: &[NodeId]) -> Vec<Task> {
    let Subject { graph, constant, contracts, .. } = subject;
    let mut task_of = vec![usize::MAX; graph.len()];
    for (task, id) in runs.iter().enumerate() {
        task_of[id.index()] = task;
    }
    let mut output = vec![false; graph.len()];
    graph.outputs().for_each(|(_, id)| output[id.index()] = true);
    let task = |id: &NodeId| {
        let node = &graph[*id];
        let contract = contracts[id.index()].as_ref().map(|(contract, _)| contract);
        let view = contract.and_then(|contract| contract.view_of);
        let inputs = node.inputs.iter().map(|input| task_of[input.index()]).filter(|t| *t != usize::MAX);
        let constants: BTreeSet<&NodeId> =
            node.inputs.iter().filter(|input| constant[input.index()]).collect();
        Task {
            size: if view.is_some() { 0 } else { node.ty.bytes().next_multiple_of(ALIGN) },
            scratch: contract.map_or(0, |contract| contract.scratch),
            inputs: inputs.collect(),
            alias_of: view.map(|v| task_of[node.inputs[v].index()]).filter(|t| *t != usize::MAX),
            output: output[id.index()],
            constants: constants.into_iter().map(|input| (input.index(), graph[*input].ty.bytes())).collect(),
        }
    };
    runs.iter().map(task).collect()
}

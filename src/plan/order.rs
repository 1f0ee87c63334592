//! The candidate orders of execution of a program.

use super::PlanError;
use super::subject::Subject;
use super::task::tasks;
use super::update::ordered;
use super::work::runs;
use crate::graph::NodeId;
use crate::memory::{self, Candidate, Candidates, Order, Task};
use crate::tensor::Device;
use std::collections::BTreeSet;

/// An order of execution.
pub(super) struct Sequence {
    /// The nodes that run, in order.
    pub nodes: Vec<NodeId>,
    /// The same as [`Candidate::reread`].
    pub reread: usize,
}

/// The candidate orders of execution.
pub(super) struct Sequences {
    pub orders: Vec<Sequence>,
    /// For each device on which results lie, a number of bytes that are live at one time in every order.
    pub least: Vec<(Device, usize)>,
}

/// Returns the candidate orders of execution, and what is known about all others.
///
/// # Errors
/// An order does not run each task once, after its inputs.
pub(super) fn orders(subject: &Subject<'_>, order: &dyn Order) -> Result<Sequences, PlanError> {
    let Subject { graph, constant, updates, .. } = subject;
    let runs = ordered(graph, runs(graph, constant), updates);
    let (tasks, node_of) = tasks(subject, &runs);
    let named = |candidate: Candidate| Sequence {
        reread: candidate.reread,
        nodes: candidate.tasks.into_iter().filter_map(|task| node_of[task]).collect(),
    };
    let Candidates { orders, mut least } = order.candidates(&tasks);
    let wrong = |why| PlanError::Order { order: order.name().to_owned(), why };
    orders.iter().try_for_each(|candidate| check(&candidate.tasks, &tasks)).map_err(wrong)?;
    let devices: BTreeSet<Device> = tasks.iter().map(|task| task.device).collect();
    for device in devices {
        if !least.iter().any(|(known, _)| *known == device) {
            least.push((device, memory::least_live(&tasks, device)));
        }
    }
    Ok(Sequences { orders: orders.into_iter().map(named).collect(), least })
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

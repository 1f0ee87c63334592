//! The orders of execution that come into question.

use super::subject::Subject;
use crate::contract::ALIGN;
use crate::graph::{INPUT, NodeId};
use crate::memory::{self, Task, reuse};
use std::collections::BTreeSet;

/// The names of what an order may be for.
pub const ORDERS: &[&str] = &["reuse", "peak", "given"];

/// An order of execution.
pub(super) struct Order {
    /// What runs, in order.
    pub nodes: Vec<NodeId>,
    /// Bytes of constants that are expected to be read again from beyond a cache that had them; zero where only
    /// the bytes that are live count.
    pub reread: usize,
}

/// The orders of execution that come into question for one of [`ORDERS`]; `None` for any other name.
pub(super) fn orders(subject: &Subject<'_>, name: &str) -> Option<Vec<Order>> {
    let Subject { graph, constant, .. } = subject;
    let runs: Vec<NodeId> = graph
        .nodes()
        .filter(|(id, node)| node.op != INPUT && !constant[id.index()])
        .map(|(id, _)| id)
        .collect();
    let tasks = match name {
        "given" => return Some(vec![Order { nodes: runs, reread: 0 }]),
        "peak" | "reuse" => tasks(subject, &runs),
        _ => return None,
    };
    let mut orders = memory::orders(&tasks);
    let reuse = if name == "reuse" { reuse::order(&tasks) } else { None };
    let counts = reuse.is_some();
    orders.extend(reuse.filter(|order| !orders.contains(order)));
    let named = |order: Vec<usize>| Order {
        reread: if counts { reuse::reread(&tasks, &order) } else { 0 },
        nodes: order.into_iter().map(|task| runs[task]).collect(),
    };
    Some(orders.into_iter().map(named).collect())
}

/// What runs, as the floor of memory sees it.
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

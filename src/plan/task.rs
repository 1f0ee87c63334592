//! Describes the nodes that run as tasks, from which an order is made.

use super::subject::Subject;
use crate::graph::{Node, NodeId};
use crate::memory::Task;
use crate::op::{ALIGN, Contract};
use std::collections::BTreeSet;

/// Returns the tasks of nodes, which come after their operands, and the node of each task.
///
/// The next value of an input needs no bytes of an arena. It waits for the readers of the input by tasks without a node and
/// without bytes, so that it does not keep the results of these readers.
pub(super) fn tasks(subject: &Subject<'_>, runs: &[NodeId]) -> (Vec<Task>, Vec<Option<NodeId>>) {
    let Subject { graph, constant, contracts, updates, .. } = subject;
    let mut output = vec![false; graph.len()];
    graph.outputs().for_each(|(_, id)| output[id.index()] = true);
    let mut known = Known { subject, task_of: vec![None; graph.len()], lies: Vec::new(), tasks: Vec::new() };
    let mut node_of = Vec::with_capacity(runs.len());
    for id in runs {
        let update = updates.get(id);
        let waits = known.waits(update.map_or(&[], |update| &update.after));
        node_of.resize(known.tasks.len(), None);
        let at = known.tasks.len();
        let node = &graph[*id];
        let empty = Contract::default();
        let contract = contracts[id.index()].as_ref().map_or(&empty, |(contract, _)| contract);
        let alias_of = contract.view_of.and_then(|operand| known.task(node, operand));
        let within = alias_of.map(|of| (known.lies[of].0, known.lies[of].1 + contract.view_offset));
        let no_bytes = contract.view_of.is_some() || update.is_some();
        let bytes = if no_bytes { 0 } else { node.ty.bytes().max(1) };
        let constants: BTreeSet<&NodeId> =
            node.inputs.iter().filter(|input| constant[input.index()]).collect();
        let operands = (0..node.inputs.len()).filter_map(|operand| known.task(node, operand));
        let task = Task {
            device: node.ty.device,
            size: bytes.next_multiple_of(ALIGN),
            scratch: contract.scratch.next_multiple_of(ALIGN),
            inputs: operands.chain(waits).collect(),
            in_place: if no_bytes { Vec::new() } else { known.in_place(node, contract) },
            parts: known.parts(node, contract),
            alias_of,
            output: output[id.index()],
            constants: constants.into_iter().map(|input| (input.index(), graph[*input].ty.bytes())).collect(),
        };
        known.task_of[id.index()] = Some(at);
        known.lies.push(within.unwrap_or((at, 0)));
        known.tasks.push(task);
        node_of.push(Some(*id));
    }
    (known.tasks, node_of)
}

/// What is known of the nodes before one.
struct Known<'a> {
    subject: &'a Subject<'a>,
    /// For each node its task, if it runs.
    task_of: Vec<Option<usize>>,
    /// For each task, the one in whose buffer its result lies, and where.
    lies: Vec<(usize, usize)>,
    tasks: Vec<Task>,
}

impl Known<'_> {
    /// Adds a task without bytes after each of some nodes. Returns these tasks.
    fn waits(&mut self, after: &[NodeId]) -> Vec<usize> {
        let readers: Vec<usize> = after.iter().filter_map(|id| self.task_of[id.index()]).collect();
        let mut waits = Vec::with_capacity(readers.len());
        for reader in readers {
            waits.push(self.tasks.len());
            self.lies.push((self.tasks.len(), 0));
            self.tasks.push(Task { inputs: vec![reader], ..Task::default() });
        }
        waits
    }

    fn task(&self, node: &Node, operand: usize) -> Option<usize> {
        self.task_of[node.inputs[operand].index()]
    }

    /// Returns the task of an operand at the beginning of a buffer on the node's device, and the task to which the
    /// buffer belongs. Inputs, constants and views of them have no buffer.
    fn begins(&self, node: &Node, operand: usize) -> Option<(usize, usize)> {
        let task = self.task(node, operand)?;
        let (root, offset) = self.lies[task];
        let same = self.tasks[task].device == node.ty.device;
        (same && offset == 0 && self.tasks[root].size > 0).then_some((task, root))
    }

    /// Returns the operands whose buffers the result may take.
    fn in_place(&self, node: &Node, contract: &Contract) -> Vec<usize> {
        let root = |operand: usize| self.task(node, operand).map(|task| self.lies[task].0);
        let takes = |operand: &usize| {
            let (task, root_of) = self.begins(node, *operand)?;
            let shared =
                (0..node.inputs.len()).any(|other| other != *operand && root(other) == Some(root_of));
            let same = self.subject.graph[node.inputs[*operand]].ty.bytes() == node.ty.bytes();
            (same && !shared).then_some(task)
        };
        contract.alias.iter().chain(&contract.in_place).filter_map(takes).collect()
    }

    /// Returns the operands that may be computed at their places within the result. Each has a buffer to itself.
    fn parts(&self, node: &Node, contract: &Contract) -> Vec<usize> {
        let part = |operand: usize| {
            let (task, root) = self.begins(node, operand)?;
            let bytes = self.subject.graph[node.inputs[operand]].ty.bytes();
            (self.tasks[root].size == bytes && contract.joins(operand, bytes)).then_some(task)
        };
        (0..contract.parts.len()).filter_map(part).collect()
    }
}

//! Inputs that a run replaces by their next values, in the memory of the caller.
//!
//! A step of training takes parameters and gives the next ones. An output with the name and the type of an input is the
//! *next value* of this input. It needs no memory of the plan if it is written where the input lies, after everything
//! else has read the input: the step that computes it works in place, or does not read the input itself.

use crate::graph::{Graph, INPUT, NodeId};
use crate::op::Contract;
use crate::tensor::Device;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// An input whose next value is written in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Update {
    /// The input.
    pub input: NodeId,
    /// Its position among the inputs.
    pub position: usize,
    /// The nodes that read the input and need not come before the next value otherwise.
    pub after: Vec<NodeId>,
}

/// The inputs of a program that are replaced, by the nodes of their next values.
pub(super) type Updates = BTreeMap<NodeId, Update>;

/// Returns the inputs of a program that can be replaced. Nothing is replaced in a program with values on devices, which
/// have memory of their own.
pub(super) fn updates(graph: &Graph, constant: &[bool], contracts: &[Option<(Contract, f64)>]) -> Updates {
    let mut updates = Updates::new();
    if graph.nodes().any(|(_, node)| node.ty.device != Device::Host) {
        return updates;
    }
    let mut finder = Finder { graph, contracts, users: graph.users(), behind: BTreeMap::new() };
    let outputs: BTreeSet<NodeId> = graph.outputs().map(|(_, id)| id).collect();
    let inputs: BTreeMap<&str, (usize, NodeId)> =
        graph.inputs().enumerate().map(|(at, (id, node))| (&*node.name, (at, id))).collect();
    for (name, next) in graph.outputs() {
        let Some((position, input)) = inputs.get(&**name).copied() else { continue };
        let runs = graph[next].op != INPUT && !constant[next.index()];
        if runs
            && graph[next].ty == graph[input].ty
            && !updates.contains_key(&next)
            && let Some(after) = finder.readers_before(input, next, &outputs)
        {
            updates.insert(next, Update { input, position, after });
        }
    }
    updates
}

/// Looks for inputs that can be replaced.
struct Finder<'a> {
    graph: &'a Graph,
    contracts: &'a [Option<(Contract, f64)>],
    /// For each node those that read it.
    users: Vec<Vec<NodeId>>,
    /// For each reader of an input that is replaced, the next values that wait for it.
    behind: BTreeMap<NodeId, Vec<NodeId>>,
}

impl Finder<'_> {
    /// Returns the readers of an input for which its next value must wait. `None` if it cannot be written in the place of
    /// the input: a reader needs the next value first, the input is an output as well, or the step that computes the next
    /// value reads the input in another way than in place.
    fn readers_before(
        &mut self,
        input: NodeId,
        next: NodeId,
        outputs: &BTreeSet<NodeId>,
    ) -> Option<Vec<NodeId>> {
        let contract = |id: NodeId| self.contracts[id.index()].as_ref().map(|(contract, _)| contract);
        let own = contract(next)?;
        // The values that have the bytes of the input: the input itself and views of it.
        let mut same = vec![input];
        let mut readers = BTreeSet::new();
        let mut at = 0;
        while let Some(value) = same.get(at).copied() {
            at += 1;
            if outputs.contains(&value) {
                return None;
            }
            for user in &self.users[value.index()] {
                let views = contract(*user).and_then(|contract| contract.view_of);
                if views.is_some_and(|operand| self.graph[*user].inputs[operand] == value) {
                    same.push(*user);
                } else {
                    readers.insert(*user);
                }
            }
        }
        if own.view_of.is_some() || !own.parts.is_empty() {
            return None;
        }
        if readers.remove(&next) {
            let operands = self.graph[next].inputs.iter().enumerate();
            let read: Vec<usize> =
                operands.filter(|(_, operand)| same.contains(operand)).map(|(at, _)| at).collect();
            let [operand] = read[..] else { return None };
            // A view of all bytes begins where the input does.
            let whole =
                self.graph[self.graph[next].inputs[operand]].ty.bytes() == self.graph[next].ty.bytes();
            if !whole || !own.in_place.iter().chain(&own.alias).any(|at| *at == operand) {
                return None;
            }
        }
        let waiting = |id: NodeId| self.behind.get(&id).into_iter().flatten();
        let later = reached(next, |id| self.users[id.index()].iter().chain(waiting(id)));
        if readers.iter().any(|reader| later.contains(reader)) {
            return None;
        }
        let earlier = reached(next, |id| self.graph[id].inputs.iter());
        readers.retain(|reader| !earlier.contains(reader));
        for reader in &readers {
            self.behind.entry(*reader).or_default().push(next);
        }
        Some(readers.into_iter().collect())
    }
}

/// Returns the nodes that are reached from a node by a relation, itself included.
fn reached<'a, N: Iterator<Item = &'a NodeId>>(from: NodeId, next: impl Fn(NodeId) -> N) -> BTreeSet<NodeId> {
    let mut reached = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(next(at).filter(|id| reached.insert(**id)).copied());
    }
    reached
}

/// Returns nodes in an order in which next values come after the readers of the inputs that they replace. Otherwise it is
/// the given order, in which operands come before their users.
pub(super) fn ordered(graph: &Graph, runs: Vec<NodeId>, updates: &Updates) -> Vec<NodeId> {
    if updates.values().all(|update| update.after.is_empty()) {
        return runs;
    }
    let mut place = vec![None; graph.len()];
    runs.iter().enumerate().for_each(|(at, id)| place[id.index()] = Some(at));
    let mut missing = vec![0; runs.len()];
    let mut users = vec![Vec::new(); runs.len()];
    for (at, id) in runs.iter().enumerate() {
        let after = updates.get(id).map(|update| &update.after).into_iter().flatten();
        for before in graph[*id].inputs.iter().chain(after).filter_map(|id| place[id.index()]) {
            missing[at] += 1;
            users[before].push(at);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..runs.len()).filter(|at| missing[*at] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(runs.len());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(runs[at]);
        for user in &users[at] {
            missing[*user] -= 1;
            if missing[*user] == 0 {
                ready.push(Reverse(*user));
            }
        }
    }
    order
}

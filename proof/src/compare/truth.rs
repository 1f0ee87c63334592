//! What the values of the imported graph should be.

use ovolo::graph::{Graph, INPUT, NodeId};
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;

/// The values of a graph's nodes: those that another runtime has given, and for all others the reference evaluation,
/// from the operands as they are here.
pub struct Truth<'a> {
    graph: &'a Graph,
    values: Vec<Option<Tensor>>,
    /// Whether another runtime gave the value.
    given: Vec<bool>,
}

impl<'a> Truth<'a> {
    /// Takes the inputs of a graph, in its order, and what another runtime gave, by the names of the nodes. A value of
    /// another type than the node's is not used; see [`Truth::misfits`].
    pub fn new(graph: &'a Graph, inputs: &[Tensor], given: &BTreeMap<String, Tensor>) -> Self {
        let mut inputs = inputs.iter();
        let (mut values, mut known) = (Vec::with_capacity(graph.len()), Vec::with_capacity(graph.len()));
        for (id, node) in graph.nodes() {
            let leaf = match graph.constant(id) {
                Some(constant) => Some(constant.clone()),
                None if node.op == INPUT => inputs.next().cloned(),
                None => None,
            };
            let other = given.get(&*node.name).filter(|value| leaf.is_none() && *value.ty() == node.ty);
            known.push(other.is_some());
            values.push(leaf.or_else(|| other.cloned()));
        }
        Self { graph, values, given: known }
    }

    /// Returns the nodes for which the other runtime gave a value of another type, with both types.
    pub fn misfits(graph: &Graph, given: &BTreeMap<String, Tensor>) -> Vec<(String, String, String)> {
        let misfit = |(_, node): (NodeId, &std::sync::Arc<ovolo::graph::Node>)| {
            let other =
                given.get(&*node.name).filter(|value| *value.ty() != node.ty && !node.op.is_leaf())?;
            Some((node.name.to_string(), node.ty.to_string(), other.ty().to_string()))
        };
        graph.nodes().filter_map(misfit).collect()
    }

    /// Returns the graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Returns whether another runtime gave the value of a node.
    pub fn is_given(&self, at: usize) -> bool {
        self.given[at]
    }

    /// Returns the value of a node, by its position.
    pub fn value(&mut self, at: usize) -> &Tensor {
        let mut open = vec![at];
        while let Some(&next) = open.last() {
            if self.values[next].is_some() {
                open.pop();
                continue;
            }
            let node = self.graph.nodes().nth(next).map(|(_, node)| node);
            let operands = node.iter().flat_map(|node| &node.inputs).map(|input| input.index());
            let missing: Vec<usize> = operands.filter(|operand| self.values[*operand].is_none()).collect();
            if missing.is_empty() {
                self.values[next] = self.local(next);
                open.pop();
            } else {
                open.extend(missing);
            }
        }
        self.values[at].as_ref().expect("the walk ends when the value is known")
    }

    /// Evaluates a node from its operands as they are known; `None` if one is not.
    pub fn local(&self, at: usize) -> Option<Tensor> {
        let (_, node) = self.graph.nodes().nth(at)?;
        let operands: Option<Vec<&Tensor>> =
            node.inputs.iter().map(|input| self.values[input.index()].as_ref()).collect();
        let operands = operands.filter(|_| !node.op.is_leaf())?;
        Some(node.op.evaluate(&node.attrs, &operands, &node.ty))
    }
}

//! A graph of which some nodes are computed several times.

use super::{Graph, INPUT, Node, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Graph {
    /// Returns a graph that computes these nodes in this order, some of them again. Each reads the latest value of each
    /// operand, and an output is the latest value of its node. Other nodes come first, in the order that they have. A node
    /// that is computed again is called `NAME.again`. The second result is the node here of each node there.
    ///
    /// # Panics
    /// If a node is computed before one of its operands.
    pub(crate) fn repeated(&self, runs: &[NodeId]) -> (Self, Vec<NodeId>) {
        let listed: BTreeSet<NodeId> = runs.iter().copied().collect();
        let before = self.nodes().map(|(id, _)| id).filter(|id| !listed.contains(id));
        let mut repeated = Repeated { graph: Self::new(), latest: vec![None; self.len()], of: Vec::new() };
        repeated.graph.set_name(self.name());
        before.chain(runs.iter().copied()).for_each(|id| repeated.add(self, id));
        for (name, id) in self.outputs() {
            let latest = repeated.latest[id.index()].expect("every node is computed");
            repeated.graph.add_output(name, latest);
        }
        (repeated.graph, repeated.of)
    }
}

/// A graph that is made from another one.
struct Repeated {
    graph: Graph,
    /// For each node of the other graph, the latest one that computes it.
    latest: Vec<Option<NodeId>>,
    /// For each node, the one of the other graph.
    of: Vec<NodeId>,
}

impl Repeated {
    fn add(&mut self, from: &Graph, id: NodeId) {
        let node = &from[id];
        let new = if node.op == INPUT {
            self.graph.add_input(&node.name, node.ty.clone())
        } else if let Some(value) = from.constant(id) {
            self.graph.add_constant(&node.name, value.clone())
        } else {
            let latest = |input: &NodeId| self.latest[input.index()].expect("operands come first");
            let inputs = node.inputs.iter().map(latest).collect();
            let name = match self.latest[id.index()] {
                None => Arc::clone(&node.name),
                Some(_) => self.free(from, &node.name),
            };
            self.graph.add_node(Node { inputs, name, ..Node::clone(node) })
        };
        self.latest[id.index()] = Some(new);
        self.of.push(id);
    }

    /// Returns a name for a node that is computed again, which no node of either graph has.
    fn free(&self, from: &Graph, name: &str) -> Arc<str> {
        let unused = |name: &String| from.find(name).is_none() && self.graph.find(name).is_none();
        let mut names = (1..).map(|time| match time {
            1 => format!("{name}.again"),
            time => format!("{name}.again{time}"),
        });
        names.find(unused).map(Arc::from).expect("a graph has not all names")
    }
}

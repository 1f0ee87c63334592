//! The graph of a model: a directed, acyclic graph in which each node is also a value.
//!
//! Every op has one result, so a [`NodeId`] identifies both a node and its value; an ONNX operator with several
//! results (Split) is imported as several nodes. A copy of a graph shares everything with it until one of the two
//! is changed, so a compilation keeps the graph of every stage at almost no cost. Rewriting does not change the
//! graph, and the extraction builds a new one, which shares only the bytes of constants with the imported graph.
//!
//! Inputs are nodes with the op `input`, constants are nodes with the op `const`. They have no attributes; they are
//! identified by their names, which are the model's own.

mod diff;
pub mod dot;
pub mod json;
mod repeat;
pub mod text;

pub use crate::op::{CONST, INPUT};
pub use diff::diff;

use crate::attr::Attrs;
use crate::op::Op;
use crate::tensor::{Tensor, TensorType};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Identifies a node of a graph, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A call of an op, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The op; [`INPUT`] and [`CONST`] are the leaves.
    pub op: Op,
    /// The op's attributes.
    pub attrs: Arc<Attrs>,
    /// The operands.
    pub inputs: Vec<NodeId>,
    /// The value's name: the model's own where it has one, unique in the graph.
    pub name: Arc<str>,
    /// The value's type.
    pub ty: TensorType,
}

/// A graph. Nodes are kept in an order in which operands come before their users.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: Arc<str>,
    parts: Arc<Parts>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    nodes: Vec<Arc<Node>>,
    by_name: FxHashMap<Arc<str>, NodeId>,
    constants: FxHashMap<Arc<str>, Tensor>,
    outputs: Vec<(Arc<str>, NodeId)>,
}

impl Graph {
    /// Makes a graph without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the parts for writing. They are copied first if another graph shares them.
    fn change(&mut self) -> &mut Parts {
        Arc::make_mut(&mut self.parts)
    }

    /// Returns the name of the model, which may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the name of the model.
    pub(crate) fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Adds an input of the model.
    pub fn add_input(&mut self, name: &str, ty: TensorType) -> NodeId {
        self.add_node(Node { op: INPUT, attrs: Arc::default(), inputs: Vec::new(), name: name.into(), ty })
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: &str, value: Tensor) -> NodeId {
        let ty = value.ty().clone();
        let id = self.add_node(Node {
            op: CONST,
            attrs: Arc::default(),
            inputs: Vec::new(),
            name: name.into(),
            ty,
        });
        let name = Arc::clone(&self[id].name);
        self.change().constants.insert(name, value);
        id
    }

    /// Sets the value of the constant node with this name. The node may be added later.
    pub(crate) fn set_constant(&mut self, name: &str, value: Tensor) {
        self.change().constants.insert(name.into(), value);
    }

    /// Adds a node. If its name is already taken, `'` is appended until it is unique.
    ///
    /// # Panics
    /// If an operand is not a node of this graph.
    pub fn add_node(&mut self, mut node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.parts.nodes.len()).expect("a graph has fewer than 2^32 nodes"));
        assert!(node.inputs.iter().all(|input| input.0 < id.0), "operands come before their users");
        while self.parts.by_name.contains_key(&node.name) {
            node.name = format!("{}'", node.name).into();
        }
        let parts = self.change();
        parts.by_name.insert(Arc::clone(&node.name), id);
        parts.nodes.push(Arc::new(node));
        id
    }

    /// Makes a node's value an output of the model. Outputs keep the order in which they are added.
    pub fn add_output(&mut self, name: &str, node: NodeId) {
        self.change().outputs.push((name.into(), node));
    }

    /// Iterates over the nodes with their ids. Operands come before their users.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Arc<Node>)> + ExactSizeIterator {
        self.parts
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (NodeId(u32::try_from(index).unwrap_or(u32::MAX)), node))
    }

    /// Returns the number of nodes, leaves included.
    pub fn len(&self) -> usize {
        self.parts.nodes.len()
    }

    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.parts.nodes.is_empty()
    }

    /// Iterates over the inputs of the model, in order.
    pub fn inputs(&self) -> impl Iterator<Item = (NodeId, &Arc<Node>)> {
        self.nodes().filter(|(_, node)| node.op == INPUT)
    }

    /// Iterates over the names and nodes of the model's outputs, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, NodeId)> {
        self.parts.outputs.iter().map(|(name, id)| (name, *id))
    }

    /// Returns the value of a constant node; `None` for other nodes.
    pub fn constant(&self, id: NodeId) -> Option<&Tensor> {
        let node = &self[id];
        if node.op == CONST { self.parts.constants.get(&node.name) } else { None }
    }

    /// Returns the number of bytes of all constants, as they were imported.
    pub fn constant_bytes(&self) -> usize {
        self.nodes().filter(|(_, node)| node.op == CONST).map(|(_, node)| node.ty.bytes()).sum()
    }

    /// Returns the node with this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.parts.by_name.get(name).copied()
    }

    /// Returns, for each node, the nodes that read it. A node that reads it twice is listed twice.
    pub fn users(&self) -> Vec<Vec<NodeId>> {
        let mut users = vec![Vec::new(); self.len()];
        for (id, node) in self.nodes() {
            for input in &node.inputs {
                users[input.index()].push(id);
            }
        }
        users
    }
}

impl NodeId {
    /// Returns the position in the graph's order.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::ops::Index<NodeId> for Graph {
    type Output = Arc<Node>;
    fn index(&self, id: NodeId) -> &Arc<Node> {
        &self.parts.nodes[id.index()]
    }
}

//! Builds a graph in which equal values are one node.

use super::error::TrainError;
use super::form::LABEL;
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::op::{Op, Ops};
use ovolo::tensor::{DType, Tensor, TensorType};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph that grows. A node with the op, the attributes and the operands of another one is that one, and an op that
/// leaves its operand as it is adds nothing.
pub(crate) struct Builder<'a> {
    ops: &'a Ops,
    graph: Graph,
    known: HashMap<(&'static str, String, Vec<NodeId>), NodeId>,
}

impl<'a> Builder<'a> {
    /// Begins with a graph of these ops.
    pub fn new(ops: &'a Ops, graph: Graph) -> Self {
        let nodes = graph.nodes().filter(|(_, node)| !node.op.is_leaf());
        let known = nodes.map(|(id, node)| (key(node.op, &node.attrs, &node.inputs), id)).collect();
        Self { ops, graph, known }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the graph, to which outputs can be added.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, ty: TensorType) -> NodeId {
        self.graph.add_input(name, ty)
    }

    /// Returns the constant `f32[]` of this value.
    pub fn number(&mut self, value: f64) -> NodeId {
        let key = ("const", format!("{value:?}"), Vec::new());
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let tensor = Tensor::from_f64(DType::F32, Vec::new(), &[value]);
        let id = self.graph.add_constant(&format!("number.{value:?}"), tensor);
        self.known.insert(key, id);
        id
    }

    /// Adds a constant.
    pub fn constant(&mut self, name: &str, value: Tensor) -> NodeId {
        self.graph.add_constant(name, value)
    }

    /// Adds a node of another graph as it is, with operands of this one.
    pub fn copy(&mut self, node: &Node, inputs: Vec<NodeId>) -> NodeId {
        let key = key(node.op, &node.attrs, &inputs);
        let id = self.graph.add_node(Node { inputs, ..node.clone() });
        self.known.entry(key).or_insert(id);
        id
    }

    /// Returns the value of an op, by the op's name.
    ///
    /// # Errors
    /// As [`Builder::op`]; also if there is no such op.
    pub fn named(
        &mut self,
        name: &str,
        op: &str,
        attrs: Attrs,
        inputs: Vec<NodeId>,
    ) -> Result<NodeId, TrainError> {
        let Some(op) = self.ops.get(op) else {
            return Err(TrainError::Unknown {
                kind: "op",
                name: op.to_owned(),
                help: "`ovolo rules reference` lists what there is".to_owned(),
            });
        };
        self.op(name, op, attrs, inputs)
    }

    /// Returns the value of an op. `name` is its name, if it is new.
    ///
    /// # Errors
    /// The op cannot be applied to these operands.
    pub fn op(
        &mut self,
        name: &str,
        op: Op,
        attrs: Attrs,
        inputs: Vec<NodeId>,
    ) -> Result<NodeId, TrainError> {
        let wrong = |why: String| TrainError::Op { what: name.to_owned(), op: op.name, why };
        let attrs = op.complete(attrs);
        if let Some(why) = op.attr_errors(&attrs).into_iter().next() {
            return Err(wrong(why));
        }
        op.check_count(&attrs, inputs.len()).map_err(|why| wrong(why.to_string()))?;
        let types: Vec<&TensorType> = inputs.iter().map(|input| &self.graph[*input].ty).collect();
        let ty = op.result(&attrs, &types).map_err(|why| wrong(why.to_string()))?;
        if let [input] = inputs[..]
            && keeps(op, &attrs, &self.graph[input].ty, &ty)
        {
            return Ok(input);
        }
        if op == "scalar" {
            return Ok(self.number(attrs.expect_float("value")));
        }
        let key = key(op, &attrs, &inputs);
        if let Some(id) = self.known.get(&key) {
            return Ok(*id);
        }
        if op == LABEL {
            let id = self.graph.add_input("labels", ty);
            self.known.insert(key, id);
            return Ok(id);
        }
        let id = self.graph.add_node(Node { op, attrs: Arc::new(attrs), inputs, name: name.into(), ty });
        self.known.insert(key, id);
        Ok(id)
    }
}

fn key(op: Op, attrs: &Attrs, inputs: &[NodeId]) -> (&'static str, String, Vec<NodeId>) {
    (op.name, attrs.to_string(), inputs.to_vec())
}

/// Returns whether an op gives its only operand.
fn keeps(op: Op, attrs: &Attrs, from: &TensorType, to: &TensorType) -> bool {
    let in_order = |list: &[i64]| list.iter().enumerate().all(|(at, axis)| usize::try_from(*axis) == Ok(at));
    from == to
        && match op.name {
            "reshape" | "expand" => true,
            "reduce-sum" | "reduce-mean" => attrs.expect_ints("axes").is_empty(),
            "transpose" => in_order(attrs.expect_ints("perm")),
            "slice" => attrs.expect_ints("starts").iter().all(|start| *start == 0),
            _ => false,
        }
}

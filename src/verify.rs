//! The verifier proves that a graph is sound.
//!
//! [`verify`] takes a graph and returns a [`Verified`] one. There is no other way to get a value of that type, so
//! code that needs a sound graph, such as the e-graph, takes it. The verifier reports all of these mistakes at
//! once, with the names of the nodes:
//!
//! - a wrong number of operands, or an operand that comes after its user;
//! - an attribute that the op does not declare, that is of the wrong kind, or that is not set. Nodes have every
//!   attribute that their op declares, including those that equal their default, so that equal nodes have equal
//!   attributes;
//! - a recorded type that differs from the inferred one, a layout of another rank than the shape, or a size that
//!   overflows;
//! - a constant without a value or with a value of another type, or a leaf with operands or attributes;
//! - a name of two nodes, an output that names no node, or a graph without outputs.

use crate::graph::{CONST, Graph, Node, NodeId};
use crate::tensor::{TensorType, type_error};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::ops::Deref;

/// A graph that the verifier has accepted. It dereferences to the graph.
#[derive(Clone, Debug)]
pub struct Verified(Graph);

impl Verified {
    /// Returns the graph, without the proof.
    pub fn into_inner(self) -> Graph {
        self.0
    }
}

impl Deref for Verified {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.0
    }
}

/// One thing that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The node, or `None` for the graph as a whole.
    pub node: Option<NodeId>,
    /// The node's name and op, as `` `conv1` (conv) ``, or `the graph`.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Everything that is wrong with a graph, in the order of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyErrors(pub Vec<VerifyError>);

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(
            f,
            "the graph is not sound ({count} {})",
            if count == 1 { "complaint" } else { "complaints" }
        )?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for VerifyErrors {}

/// Checks a graph.
///
/// # Errors
/// Everything that is wrong with it.
pub fn verify(graph: Graph) -> Result<Verified, VerifyErrors> {
    let mut found = Vec::new();
    let mut names = FxHashSet::default();
    for (id, node) in graph.nodes() {
        let mut report = |message: String| {
            let place = format!("`{}` ({})", node.name, node.op);
            found.push(VerifyError { node: Some(id), place, message });
        };
        if node.name.is_empty() {
            report("the name is empty".to_owned());
        }
        if !names.insert(&node.name) {
            report("another node has the same name".to_owned());
        }
        match type_error(&node.ty) {
            Some(message) => report(message),
            None => check_node(&graph, id, node, &mut report),
        }
    }
    let mut report = |message| found.push(VerifyError { node: None, place: "the graph".to_owned(), message });
    if graph.outputs().len() == 0 {
        report("there are no outputs".to_owned());
    }
    let mut outputs = FxHashMap::default();
    for (name, id) in graph.outputs() {
        if id.index() >= graph.len() {
            report(format!("output `{name}` names the node {id}, which does not exist"));
        }
        if outputs.insert(name, id).is_some() {
            report(format!("two outputs are called `{name}`"));
        }
    }
    if found.is_empty() { Ok(Verified(graph)) } else { Err(VerifyErrors(found)) }
}

fn check_node(graph: &Graph, id: NodeId, node: &Node, report: &mut dyn FnMut(String)) {
    if node.op.is_leaf() {
        if !node.inputs.is_empty() || !node.attrs.is_empty() {
            report("a leaf has neither operands nor attributes".to_owned());
        }
        match graph.constant(id) {
            None if node.op == CONST => report("the constant has no value".to_owned()),
            Some(value) if *value.ty() != node.ty => {
                report(format!("recorded as {}, the constant's value is {}", node.ty, value.ty()));
            }
            _ => {}
        }
        return;
    }
    let mut sound = true;
    for message in node.op.attr_errors(&node.attrs) {
        sound = false;
        report(message);
    }
    if let Some(late) = node.inputs.iter().find(|input| input.index() >= id.index()) {
        report(format!("its operand {late} does not come before it"));
        return;
    }
    if let Err(why) = node.op.check_count(&node.attrs, node.inputs.len()) {
        report(why.to_string());
        return;
    }
    if !sound {
        return;
    }
    let types: Vec<&TensorType> = node.inputs.iter().map(|&input| &graph[input].ty).collect();
    if types.iter().any(|ty| type_error(ty).is_some()) {
        return; // The operand's own node has been complained about.
    }
    match node.op.result(&node.attrs, &types) {
        Ok(inferred) if inferred == node.ty => {}
        Ok(inferred) => report(format!("recorded as {}, inferred as {inferred}", node.ty)),
        Err(message) => {
            let operands: Vec<String> = node
                .inputs
                .iter()
                .map(|&input| format!("{}: {}", graph[input].name, graph[input].ty))
                .collect();
            report(format!("{message}; operands: {}", operands.join(", ")));
        }
    }
}

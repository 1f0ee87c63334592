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
use crate::op::{attr_errors, operand_count};
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
    for message in attr_errors(node.op, &node.attrs) {
        sound = false;
        report(message);
    }
    if let Some(late) = node.inputs.iter().find(|input| input.index() >= id.index()) {
        report(format!("its operand {late} does not come before it"));
        return;
    }
    if let Err(why) = operand_count(node.op, &node.attrs, node.inputs.len()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, Attrs, Float, Step};
    use crate::graph::text::parse;
    use crate::tensor::{DType, Tensor};
    use std::sync::Arc;

    const TINY: &str =
        "graph { x: f32[1,16,8,8] = input; w: f32[16,16,3,3] = const ~1; b: f32[16] = const splat 0.0
        y = conv(x, w, b, x) {pads: [1,1,1,1], post: <add,relu>}; s = softmax(y) {axis: 1}; return s }";

    /// Returns the errors of the tiny graph in which the node of this name was changed before it was added.
    fn changed(name: &str, change: impl Fn(&mut Node)) -> String {
        let sound = parse(crate::fixture::ops(), TINY).unwrap();
        let mut graph = Graph::new();
        for (id, node) in sound.nodes() {
            match sound.constant(id) {
                Some(value) => drop(graph.add_constant(&node.name, value.clone())),
                None => {
                    let mut node = Node::clone(node);
                    if &*node.name == name {
                        change(&mut node);
                    }
                    graph.add_node(node);
                }
            }
        }
        graph.add_output("s", sound.find("s").unwrap());
        verify(graph).map_or_else(|errors| errors.to_string(), |_| "sound".to_owned())
    }

    fn with(node: &mut Node, name: &'static str, value: Attr) {
        node.attrs = Arc::new(Attrs::clone(&node.attrs).with(name, value));
    }

    #[test]
    fn a_sound_graph_is_proven_so() {
        assert_eq!(changed("y", |_| ()), "sound");
        let verified = verify(parse(crate::fixture::ops(), TINY).unwrap()).unwrap();
        assert_eq!(verified.len(), 5);
        assert_eq!(verified.into_inner().len(), 5);
    }

    #[test]
    fn every_complaint_names_its_node() {
        type Case = (&'static str, fn(&mut Node), &'static str);
        let cases: [Case; 10] = [
            ("y", |y| y.inputs.truncate(3), "takes 3 operands and 1 for its post chain, 3 are given"),
            (
                "y",
                |y| with(y, "groups", Attr::Ints(vec![1])),
                "attribute `groups` is [1], of kind Ints where Int is declared",
            ),
            ("y", |y| with(y, "pad", Attr::Int(1)), "there is no attribute `pad`; did you mean `pads`?"),
            ("y", |y| with(y, "groups", Attr::Int(3)), "operands: x: f32[1,16,8,8], w: f32[16,16,3,3]"),
            (
                "y",
                |y| y.ty.dtype = DType::F16,
                "`y` (conv): recorded as f16[1,16,8,8], inferred as f32[1,16,8,8]",
            ),
            ("y", |y| y.ty.shape = [1 << 40, 1 << 40].into(), "is larger than any memory"),
            ("y", |y| y.ty.layout = "nhw".parse().unwrap(), "layout `nhw` is for 3 dimensions"),
            ("s", |s| s.attrs = Arc::default(), "`s` (softmax): attribute `axis` is not set"),
            (
                "x",
                |x| with(x, "axis", Attr::Int(1)),
                "`x` (input): a leaf has neither operands nor attributes",
            ),
            ("x", |x| x.op = CONST, "`x` (const): the constant has no value"),
        ];
        for (name, change, message) in cases {
            let found = changed(name, change);
            assert!(found.contains(message), "{found}\nlacks: {message}");
        }
    }

    #[test]
    fn steps_of_a_post_chain_are_checked() {
        let post = |op: &'static str, parameters: &[Float]| {
            let step = Step { op: op.into(), parameters: parameters.to_vec() };
            changed("y", |y| with(y, "post", Attr::Post(vec![step.clone()])))
        };
        assert!(post("softmax", &[]).contains("`softmax` is not a step of a post chain"));
        assert!(post("clip", &[Float(0.0)]).contains("step `clip` has 1 parameters, 2 are declared"));
    }

    #[test]
    fn unset_attributes_with_a_default_are_refused_too() {
        let found = changed("y", |y| y.attrs = Arc::new(Attrs::new().ints("pads", &[1, 1, 1, 1])));
        assert!(found.contains("attribute `groups` is not set (default 1)"), "{found}");
        assert!(found.contains("attribute `post` is not set (default <>)"), "{found}");
    }

    #[test]
    fn outputs_are_checked() {
        let mut graph = Graph::new();
        let x = graph.add_constant("x", Tensor::scalar(1.0_f32));
        assert!(
            verify(graph.clone()).unwrap_err().to_string().ends_with("\n  the graph: there are no outputs")
        );
        graph.add_output("y", x);
        graph.add_output("y", x);
        let errors = verify(graph).unwrap_err();
        assert_eq!(errors.0.len(), 1);
        assert!(errors.to_string().contains("two outputs are called `y`"));
    }
}

//! Functions that the model itself defines. Each call is replaced by the function's nodes.
//!
//! Values inside a function get the name of the call's first result, a `/`, and their own name.

use super::document::{Body, Operation};
use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetId};
use super::structure::{describe, is_own, order};
use super::{OnnxError, Refusal};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most nodes that a model may have after its functions are inlined.
const MAX_NODES: usize = 1 << 20;

/// The greatest depth of functions that call each other.
const MAX_DEPTH: usize = 64;

/// Returns the version of a domain among some imports.
pub(super) fn opset_of(imports: &[OperatorSetId], domain: &str) -> Option<i64> {
    imports
        .iter()
        .find(|import| import.domain == domain || (is_own(&import.domain) && is_own(domain)))
        .map(|import| import.version)
}

/// Inlines every call of a function and returns the nodes of the model, with their subgraphs.
///
/// # Errors
/// A function that calls itself, functions that call each other too deeply, a call with more operands or results
/// than the function has, or more than [`MAX_NODES`] nodes in total.
pub(super) fn inline(
    nodes: Vec<NodeProto>,
    functions: &[FunctionProto],
    imports: &[OperatorSetId],
) -> Result<Vec<Operation>, OnnxError> {
    Inliner { functions, count: 0, open: Vec::new() }.nodes(nodes, imports)
}

struct Inliner<'a> {
    functions: &'a [FunctionProto],
    /// The number of nodes up to now, those in subgraphs included.
    count: usize,
    /// The functions and subgraphs that are being inlined.
    open: Vec<Option<usize>>,
}

impl Inliner<'_> {
    fn nodes(
        &mut self,
        nodes: Vec<NodeProto>,
        imports: &[OperatorSetId],
    ) -> Result<Vec<Operation>, OnnxError> {
        let mut operations = Vec::with_capacity(nodes.len());
        for node in nodes {
            self.node(node, imports, &mut operations)?;
        }
        Ok(operations)
    }

    /// Makes an operation of a node that is no call of a function. Its subgraphs become bodies.
    fn operation(&mut self, mut node: NodeProto, imports: &[OperatorSetId]) -> Result<Operation, OnnxError> {
        let opset = opset_of(imports, &node.domain);
        let (mut bodies, mut reads) = (Vec::new(), node.input.clone());
        reads.retain(|name| !name.is_empty());
        let graphs: Vec<(String, GraphProto)> = node
            .attribute
            .iter_mut()
            .filter_map(|attribute| Some((attribute.name.clone(), *attribute.g.take()?)))
            .collect();
        for (name, mut graph) in graphs {
            node.attribute.retain(|attribute| attribute.name != name);
            self.open.push(None);
            if self.open.len() > MAX_DEPTH {
                return Err(refusal(&node, Refusal::other(TOO_DEEP)));
            }
            let operations = self.nodes(std::mem::take(&mut graph.node), imports)?;
            self.open.pop();
            let (sequence, outer) = order(&graph, &operations, true)?;
            reads.extend(outer);
            bodies.push((name, Arc::new(Body::new(graph, operations, sequence))));
        }
        Ok(Operation { node, opset, bodies, reads })
    }

    fn node(
        &mut self,
        node: NodeProto,
        imports: &[OperatorSetId],
        operations: &mut Vec<Operation>,
    ) -> Result<(), OnnxError> {
        let found = self.functions.iter().position(|function| {
            function.name == node.op_type
                && function.overload == node.overload
                && (function.domain == node.domain || (is_own(&function.domain) && is_own(&node.domain)))
        });
        let Some(index) = found else {
            self.count += 1;
            if self.count > MAX_NODES {
                return Err(OnnxError::Unfolded { most: MAX_NODES });
            }
            operations.push(self.operation(node, imports)?);
            return Ok(());
        };
        if self.open.contains(&Some(index)) {
            let why = "this function of the model calls itself; export the model without recursion";
            return Err(refusal(&node, Refusal::other(why)));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(refusal(&node, Refusal::other(TOO_DEEP)));
        }
        self.open.push(Some(index));
        let result = self.call(&node, &self.functions[index], operations);
        self.open.pop();
        result
    }

    fn call(
        &mut self,
        call: &NodeProto,
        function: &FunctionProto,
        operations: &mut Vec<Operation>,
    ) -> Result<(), OnnxError> {
        let refuse = |what: &str, has: usize, given: usize| {
            let why = format!("the model's function has {has} {what}, but the call names {given}");
            Err(refusal(call, Refusal::other(why)))
        };
        if call.input.len() > function.input.len() {
            return refuse("operands", function.input.len(), call.input.len());
        }
        if call.output.len() > function.output.len() {
            return refuse("results", function.output.len(), call.output.len());
        }
        let mut names: FxHashMap<&str, String> = FxHashMap::default();
        for (at, formal) in function.input.iter().enumerate() {
            names.insert(formal, call.input.get(at).cloned().unwrap_or_default());
        }
        for (formal, actual) in function.output.iter().zip(&call.output) {
            if !actual.is_empty() {
                names.insert(formal, actual.clone());
            }
        }
        let prefix = call.output.iter().find(|output| !output.is_empty()).cloned().unwrap_or_default();
        let actual = Actual { call, function, names, prefix };
        for inner in &function.node {
            self.node(actual.node(inner), &function.opset_import, operations)?;
        }
        Ok(())
    }
}

const TOO_DEEP: &str =
    "functions and subgraphs of the model are nested more than 64 deep; export it without functions";

fn refusal(node: &NodeProto, why: Refusal) -> OnnxError {
    OnnxError::Node { node: describe(node), why: Box::new(why), operands: Vec::new() }
}

/// What replaces the names and attributes of a function in one call of it.
struct Actual<'a> {
    call: &'a NodeProto,
    function: &'a FunctionProto,
    /// The names of the call's operands and results, by those of the function.
    names: FxHashMap<&'a str, String>,
    /// Comes before the names of all other values.
    prefix: String,
}

impl Actual<'_> {
    fn rename(&self, name: &str) -> String {
        match self.names.get(name) {
            _ if name.is_empty() => String::new(),
            Some(actual) => actual.clone(),
            None => format!("{}/{name}", self.prefix),
        }
    }

    fn node(&self, inner: &NodeProto) -> NodeProto {
        let mut node = inner.clone();
        node.input = inner.input.iter().map(|name| self.rename(name)).collect();
        node.output = inner.output.iter().map(|name| self.rename(name)).collect();
        if !inner.name.is_empty() {
            node.name = format!("{}/{}", self.prefix, inner.name);
        }
        node.attribute = inner.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect();
        node
    }

    fn attribute(&self, attribute: &AttributeProto) -> Option<AttributeProto> {
        if attribute.ref_attr_name.is_empty() {
            let mut attribute = attribute.clone();
            if let Some(graph) = &mut attribute.g {
                self.graph(graph);
            }
            return Some(attribute);
        }
        let wanted = &attribute.ref_attr_name;
        let given = self.call.attribute.iter().find(|a| a.name == *wanted);
        let value = given.or_else(|| self.function.attribute_proto.iter().find(|a| a.name == *wanted))?;
        Some(AttributeProto { name: attribute.name.clone(), ..value.clone() })
    }

    /// Renames everything in a subgraph of the function: what it defines, and what it reads of the function.
    fn graph(&self, graph: &mut GraphProto) {
        graph.node = graph.node.iter().map(|node| self.node(node)).collect();
        for value in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
            value.name = self.rename(&value.name);
        }
        let sparse = graph.sparse_initializer.iter_mut().filter_map(|sparse| sparse.values.as_mut());
        for initializer in graph.initializer.iter_mut().chain(sparse) {
            initializer.name = self.rename(&initializer.name);
        }
    }
}

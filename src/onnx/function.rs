//! Functions that the model itself defines. Each call is replaced by the function's nodes.
//!
//! Values inside a function get the name of the call's first result, a `/`, and their own name.

use super::proto::{FunctionProto, NodeProto, OperatorSetId};
use super::structure::{Operation, describe, is_own};
use super::{OnnxError, Refusal};
use rustc_hash::FxHashMap;

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

/// Inlines every call of a function and returns the nodes of the model.
///
/// # Errors
/// A function that calls itself, functions that call each other too deeply, a call with more operands or results
/// than the function has, or more than [`MAX_NODES`] nodes in total.
pub(super) fn inline(
    nodes: Vec<NodeProto>,
    functions: &[FunctionProto],
    imports: &[OperatorSetId],
) -> Result<Vec<Operation>, OnnxError> {
    let mut inliner = Inliner { functions, operations: Vec::new(), open: Vec::new() };
    for node in nodes {
        inliner.node(node, imports)?;
    }
    Ok(inliner.operations)
}

struct Inliner<'a> {
    functions: &'a [FunctionProto],
    operations: Vec<Operation>,
    open: Vec<usize>,
}

impl Inliner<'_> {
    fn node(&mut self, node: NodeProto, imports: &[OperatorSetId]) -> Result<(), OnnxError> {
        let found = self.functions.iter().position(|function| {
            function.name == node.op_type
                && function.overload == node.overload
                && (function.domain == node.domain || (is_own(&function.domain) && is_own(&node.domain)))
        });
        let Some(index) = found else {
            if self.operations.len() >= MAX_NODES {
                let why = format!(
                    "the model's functions unfold to more than {MAX_NODES} nodes; export it without functions"
                );
                return Err(OnnxError::Graph(why));
            }
            let opset = opset_of(imports, &node.domain);
            self.operations.push(Operation { node, opset });
            return Ok(());
        };
        if self.open.contains(&index) || self.open.len() >= MAX_DEPTH {
            let why = if self.open.contains(&index) {
                Refusal::other("this function of the model calls itself; export the model without recursion")
            } else {
                Refusal::other(format!(
                    "functions of the model call each other more than {MAX_DEPTH} deep; export it without functions"
                ))
            };
            return Err(OnnxError::Node { node: describe(&node), why: Box::new(why), operands: Vec::new() });
        }
        self.open.push(index);
        let result = self.call(&node, &self.functions[index]);
        self.open.pop();
        result
    }

    fn call(&mut self, call: &NodeProto, function: &FunctionProto) -> Result<(), OnnxError> {
        let refuse = |what: &str, has: usize, given: usize| {
            let why =
                Refusal::other(format!("the model's function has {has} {what}, but the call names {given}"));
            Err(OnnxError::Node { node: describe(call), why: Box::new(why), operands: Vec::new() })
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
        let rename = |name: &String| match names.get(name.as_str()) {
            _ if name.is_empty() => String::new(),
            Some(actual) => actual.clone(),
            None => format!("{prefix}/{name}"),
        };
        for inner in &function.node {
            let mut node = inner.clone();
            node.input = inner.input.iter().map(rename).collect();
            node.output = inner.output.iter().map(rename).collect();
            if !inner.name.is_empty() {
                node.name = format!("{prefix}/{}", inner.name);
            }
            node.attribute.clear();
            for attribute in &inner.attribute {
                if attribute.ref_attr_name.is_empty() {
                    node.attribute.push(attribute.clone());
                    continue;
                }
                let wanted = &attribute.ref_attr_name;
                let given = call.attribute.iter().find(|a| a.name == *wanted);
                if let Some(value) =
                    given.or_else(|| function.attribute_proto.iter().find(|a| a.name == *wanted))
                {
                    let mut value = value.clone();
                    value.name.clone_from(&attribute.name);
                    node.attribute.push(value);
                }
            }
            self.node(node, &function.opset_import)?;
        }
        Ok(())
    }
}

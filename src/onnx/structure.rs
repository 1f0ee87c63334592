//! The structure of a model's graph: what defines each value, and in which order nodes can run.

use super::OnnxError;
use super::document::Operation;
use super::error::{Duplicate, Undefined, closest};
use super::initializer::Initializer;
use super::proto::{GraphProto, NodeProto};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns how messages name a node: by its operator, and its name or its first result.
pub(super) fn describe(node: &NodeProto) -> String {
    format!("{} {}", full_name(node), label(node))
}

/// Returns the name of a node's operator, preceded by its domain unless that is ONNX's own.
pub(super) fn full_name(node: &NodeProto) -> String {
    if is_own(&node.domain) { node.op_type.clone() } else { format!("{}.{}", node.domain, node.op_type) }
}

/// Returns a node's name, or that of its first result.
pub(super) fn label(node: &NodeProto) -> String {
    match node.output.iter().find(|output| !output.is_empty()) {
        _ if !node.name.is_empty() => format!("node `{}`", node.name),
        Some(output) => format!("node that makes `{output}`"),
        None => "node without name or result".to_owned(),
    }
}

/// Returns whether a domain is that of ONNX's own operators.
pub(super) fn is_own(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// Checks that each value is defined once and, unless the graph is in another one whose values it may read, that each
/// name that is read is defined. Returns an order in which operands come before their users, which is the order of
/// the file if possible, and the names that the graph does not define.
pub(super) fn order(
    graph: &GraphProto,
    operations: &[Operation],
    inner: bool,
) -> Result<(Vec<usize>, Vec<String>), OnnxError> {
    let makers = makers(graph, operations)?;
    if !inner {
        undefined(graph, operations, &makers)?;
    }
    let outputs = graph.output.iter().map(|output| &output.name);
    let read = operations.iter().flat_map(|operation| &operation.reads).chain(outputs);
    let mut known = FxHashSet::default();
    let outer = read.filter(|name| !makers.contains_key(name.as_str()) && known.insert(name.as_str()));
    let outer = outer.cloned().collect();

    let mut waiting: Vec<usize> = vec![0; operations.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); operations.len()];
    for (index, operation) in operations.iter().enumerate() {
        for input in &operation.reads {
            if let Some(Maker::Node(maker)) = makers.get(input.as_str()) {
                users[*maker].push(index);
                waiting[index] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..operations.len()).filter(|&index| waiting[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(operations.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    if order.len() == operations.len() {
        Ok((order, outer))
    } else {
        Err(cycle(operations, &makers, &waiting))
    }
}

#[derive(Clone, Copy)]
enum Maker {
    Leaf(&'static str),
    Node(usize),
}

fn makers<'a>(
    graph: &'a GraphProto,
    operations: &'a [Operation],
) -> Result<FxHashMap<&'a str, Maker>, OnnxError> {
    let say = |maker: Maker| match maker {
        Maker::Leaf(kind) => format!("an {kind}"),
        Maker::Node(index) => describe(&operations[index].node),
    };
    let mut makers: FxHashMap<&str, Maker> = FxHashMap::default();
    let mut values = Vec::new();
    let mut define = |name: &'a str, maker: Maker| {
        let first = makers.insert(name, maker);
        // Old models also list every initializer as an input, whose default value it is.
        let default = matches!((first, maker), (Some(Maker::Leaf("input")), Maker::Leaf("initializer")));
        if let Some(first) = first.filter(|_| !default) {
            values.push(Duplicate { name: name.to_owned(), makers: [say(first), say(maker)] });
        }
    };
    for input in &graph.input {
        define(&input.name, Maker::Leaf("input"));
    }
    for initializer in Initializer::all(graph) {
        define(initializer.name(), Maker::Leaf("initializer"));
    }
    for (index, operation) in operations.iter().enumerate() {
        for output in operation.node.output.iter().filter(|output| !output.is_empty()) {
            define(output, Maker::Node(index));
        }
    }
    if values.is_empty() { Ok(makers) } else { Err(OnnxError::Duplicate { values }) }
}

fn undefined(
    graph: &GraphProto,
    operations: &[Operation],
    makers: &FxHashMap<&str, Maker>,
) -> Result<(), OnnxError> {
    let mut values = Vec::new();
    let mut told = FxHashSet::default();
    let mut check = |name: &str, reader: &dyn Fn() -> String| {
        if !makers.contains_key(name) && told.insert(name.to_owned()) {
            let close = closest(name, makers.keys().copied());
            values.push(Undefined { name: name.to_owned(), reader: reader(), close });
        }
    };
    for operation in operations {
        for input in &operation.reads {
            check(input, &|| describe(&operation.node));
        }
    }
    for output in &graph.output {
        check(&output.name, &|| "the graph as its output".to_owned());
    }
    if values.is_empty() { Ok(()) } else { Err(OnnxError::Undefined { values }) }
}

/// Finds a cycle: walks from a node that never became ready to one that it waits for, until a node comes up twice.
fn cycle(operations: &[Operation], makers: &FxHashMap<&str, Maker>, waiting: &[usize]) -> OnnxError {
    let stuck = |index: &usize| waiting[*index] > 0;
    let mut path: Vec<usize> = (0..operations.len()).filter(stuck).take(1).collect();
    while let Some(&last) = path.last() {
        let before = operations[last].reads.iter().find_map(|input| match makers.get(input.as_str()) {
            Some(Maker::Node(maker)) if stuck(maker) => Some(*maker),
            _ => None,
        });
        let Some(before) = before else { break };
        if let Some(at) = path.iter().position(|&index| index == before) {
            path.drain(..at);
            break;
        }
        path.push(before);
    }
    path.reverse();
    // The cycle starts at the node that comes first in the file, so that the message is easy to follow.
    let first = path.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(at, _)| at);
    path.rotate_left(first);
    OnnxError::Cycle { nodes: path.into_iter().map(|index| describe(&operations[index].node)).collect() }
}

//! The differences between two graphs.
//!
//! Nodes are paired by name first. The remaining ones are paired by structure: a node with the same op, attributes
//! and type on paired operands is the same value under a new name. Operands are compared through the pairs, so a
//! renamed value does not make its users differ. Each change is one line:
//!
//! ```text
//! - conv1: f32[1,16,8,8] = conv(x, w, b) {pads: [1,1,1,1]}
//! ~ relu1: relu(conv1) => conv(x, w, b) {pads: [1,1,1,1], post: <relu>}
//! ~ old-name is now new-name
//! + pack1: f32[1,16,8,8]@nChw16c = pack(relu1) {layout: nChw16c}
//! ```

use super::text::{print_node, print_value, quote};
use super::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::Op;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Only the earlier graph has it: `-`.
    Removed,
    /// Only the later graph has it: `+`.
    Added,
    /// Both have it, and it differs: `~`.
    Changed,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "-",
            Self::Added => "+",
            Self::Changed => "~",
        })
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Its kind.
    pub mark: Mark,
    /// What was removed, added or changed, in the words of the text form.
    pub text: String,
}

/// The changes, in the order of the later graph. They are displayed one on a line; nothing is displayed if the
/// graphs are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Diff {
    /// The changes.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Returns whether the graphs are the same, apart from the order of independent nodes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn push(&mut self, mark: Mark, text: String) {
        self.changes.push(Change { mark, text });
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(f, "{} {}", change.mark, change.text))
    }
}

/// Returns the changes from the first graph to the second.
pub fn diff(before: &Graph, after: &Graph) -> Diff {
    let pairs = pair(before, after);
    let mut earlier = vec![None; after.len()];
    for (old, new) in pairs.iter().enumerate() {
        if let Some(new) = new {
            earlier[new.index()] = Some(old);
        }
    }
    let olds: Vec<NodeId> = before.nodes().map(|(id, _)| id).collect();
    let mut diff = Diff::default();
    if before.name() != after.name() {
        diff.push(Mark::Changed, format!("graph {} => graph {}", quote(before.name()), quote(after.name())));
    }
    let mut seen = 0;
    for (new, _) in after.nodes() {
        let Some(old) = earlier[new.index()].map(|index: usize| olds[index]) else {
            // Nodes that were removed here come before those that were added in their place.
            while olds.get(seen).is_some_and(|&old| pairs[old.index()].is_none()) {
                removed(before, olds[seen], &pairs, &mut diff);
                seen += 1;
            }
            diff.push(Mark::Added, print_node(after, new));
            continue;
        };
        while seen <= old.index() {
            removed(before, olds[seen], &pairs, &mut diff);
            seen += 1;
        }
        compare(before, old, after, new, &pairs, &mut diff);
    }
    for &old in &olds[seen..] {
        removed(before, old, &pairs, &mut diff);
    }
    compare_outputs(before, after, &pairs, &mut diff);
    diff
}

fn removed(before: &Graph, old: NodeId, pairs: &[Option<NodeId>], diff: &mut Diff) {
    if pairs[old.index()].is_none() {
        diff.push(Mark::Removed, print_node(before, old));
    }
}

/// Returns, for each node of the earlier graph, its counterpart in the later one.
fn pair(before: &Graph, after: &Graph) -> Vec<Option<NodeId>> {
    let mut pairs: Vec<Option<NodeId>> = before.nodes().map(|(_, node)| after.find(&node.name)).collect();
    // Nodes of the later graph without a counterpart, by what they compute. Of several, the first one is taken.
    let mut left: FxHashMap<(Op, Vec<NodeId>), VecDeque<NodeId>> = FxHashMap::default();
    for (new, node) in after.nodes().filter(|(_, node)| before.find(&node.name).is_none()) {
        left.entry((node.op, node.inputs.clone())).or_default().push_back(new);
    }
    for (old, node) in before.nodes() {
        if pairs[old.index()].is_some() {
            continue;
        }
        let inputs: Option<Vec<NodeId>> = node.inputs.iter().map(|input| pairs[input.index()]).collect();
        let Some(candidates) = inputs.and_then(|inputs| left.get_mut(&(node.op, inputs))) else {
            continue;
        };
        let found = candidates.iter().position(|&new| {
            let other = &after[new];
            other.attrs == node.attrs
                && other.ty == node.ty
                && (node.op != CONST || same_value(before.constant(old), after.constant(new)))
        });
        pairs[old.index()] = found.and_then(|position| candidates.remove(position));
    }
    pairs
}

fn same_value(a: Option<&Tensor>, b: Option<&Tensor>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            let (x, y) = (a.bytes(), b.bytes());
            a.ty() == b.ty() && (std::ptr::eq(x, y) || x == y)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Compares two paired nodes.
fn compare(
    before: &Graph,
    old: NodeId,
    after: &Graph,
    new: NodeId,
    pairs: &[Option<NodeId>],
    diff: &mut Diff,
) {
    let (a, b): (&Node, &Node) = (&before[old], &after[new]);
    let name = quote(&b.name);
    if a.name != b.name {
        diff.push(Mark::Changed, format!("{} is now {name}", quote(&a.name)));
    }
    let same_inputs = a.inputs.len() == b.inputs.len()
        && a.inputs.iter().zip(&b.inputs).all(|(x, y)| pairs[x.index()] == Some(*y));
    let same = a.op == b.op
        && a.attrs == b.attrs
        && same_inputs
        && (a.op == INPUT || a.op != CONST || same_value(before.constant(old), after.constant(new)));
    let text = match (same, a.ty == b.ty) {
        (true, true) => return,
        (true, false) => format!("{name}: {} => {}", a.ty, b.ty),
        (false, true) => format!("{name}: {} => {}", print_value(before, old), print_value(after, new)),
        (false, false) => {
            format!(
                "{name}: {} = {} => {} = {}",
                a.ty,
                print_value(before, old),
                b.ty,
                print_value(after, new)
            )
        }
    };
    diff.push(Mark::Changed, text);
}

fn compare_outputs(before: &Graph, after: &Graph, pairs: &[Option<NodeId>], diff: &mut Diff) {
    let value = |graph: &Graph, id: NodeId| quote(&graph[id].name);
    let find =
        |graph: &Graph, name: &str| graph.outputs().find(|(other, _)| ***other == *name).map(|(_, id)| id);
    for (name, old) in before.outputs() {
        let shown = format!("return {} = {}", quote(name), value(before, old));
        match find(after, name) {
            None => diff.push(Mark::Removed, shown),
            Some(new) if pairs[old.index()] != Some(new) => {
                diff.push(Mark::Changed, format!("{shown} => {}", value(after, new)));
            }
            Some(_) => {}
        }
    }
    for (name, new) in after.outputs().filter(|(name, _)| find(before, name).is_none()) {
        diff.push(Mark::Added, format!("return {} = {}", quote(name), value(after, new)));
    }
    let common = |graph: &Graph, other: &Graph| -> Vec<String> {
        graph.outputs().filter(|(name, _)| find(other, name).is_some()).map(|(name, _)| quote(name)).collect()
    };
    let (old, new) = (common(before, after), common(after, before));
    if old != new {
        diff.push(Mark::Changed, format!("outputs {} => {}", old.join(", "), new.join(", ")));
    }
    let inputs = |graph: &Graph, other: &Graph| -> Vec<String> {
        let both = |name: &str| other.find(name).is_some_and(|id| other[id].op == INPUT);
        graph.inputs().filter(|(_, node)| both(&node.name)).map(|(_, node)| quote(&node.name)).collect()
    };
    let (old, new) = (inputs(before, after), inputs(after, before));
    if old != new {
        diff.push(Mark::Changed, format!("inputs {} => {}", old.join(", "), new.join(", ")));
    }
}

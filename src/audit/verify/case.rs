//! A counter-example as a case file: the text form of a graph with both sides as its outputs.

use super::build::types_differ;
use super::check::Difference;
use super::draft::{Draft, Filling};
use crate::graph::{Graph, Node, NodeId, text};
use crate::rule::Rule;
use std::fmt::Write;
use std::sync::Arc;

/// The text of an instance with what differs in comments. Leaves are constants, so that the file
/// runs without inputs; the comments say which of them stand for values that are not constant.
pub(super) fn print(rule: &Rule, draft: &Draft, difference: Option<&Difference>) -> String {
    let mut out = format!("// rule {} ({}:{})\n", rule.name, rule.file, rule.line);
    if let Some(Difference { side, what, at }) = difference {
        let _ = writeln!(out, "// {what}, at output {side}");
        if let Some((index, left, right)) = at {
            let _ = writeln!(out, "// first at {index:?}: left {left:?}, right {right:?}");
        }
    }
    if let Some((side, left, right)) = types_differ(draft) {
        let _ = writeln!(out, "// output {side} has type {left} on the left, {right} on the right");
    }
    let variable: Vec<&str> = draft
        .operands
        .iter()
        .zip(&rule.operand_vars)
        .filter(|(at, _)| at.is_some_and(|at| !draft.values[at].constant))
        .map(|(_, name)| name.as_str())
        .collect();
    if !variable.is_empty() {
        let _ = writeln!(out, "// not constant in the rule's match: {}", variable.join(", "));
    }
    out + &text(rule, draft)
}

fn text(rule: &Rule, draft: &Draft) -> String {
    let roots: Vec<usize> = draft.left.iter().chain(&draft.right).copied().collect();
    let mut graph = Graph::new();
    let mut ids: Vec<Option<NodeId>> = vec![None; draft.values.len()];
    let mut seeds: Vec<(String, String)> = Vec::new();
    for at in draft.below(&roots) {
        let value = &draft.values[at];
        let name = name(rule, draft, at);
        ids[at] = Some(match (value.op, draft.tensor(at)) {
            (Some(op), _) => graph.add_node(Node {
                op: op.name,
                attrs: Arc::new(value.attrs.clone()),
                inputs: value.inputs.iter().filter_map(|input| ids[*input]).collect(),
                name: name.into(),
                ty: value.ty.clone(),
            }),
            (None, Some(tensor)) => {
                let id = graph.add_constant(&name, tensor.clone());
                if let Some(Filling::Seeded(seed)) = value.leaf.as_ref().map(|leaf| &leaf.values) {
                    let written = text::print_node(&graph, id);
                    let seeded = format!("{}: {} = const ~{seed}", text::quote(&graph[id].name), value.ty);
                    seeds.push((written, seeded));
                }
                id
            }
            (None, None) => continue,
        });
    }
    for (side, roots) in [("left", &draft.left), ("right", &draft.right)] {
        for (at, root) in roots.iter().enumerate() {
            if let Some(id) = ids[*root] {
                let name = if roots.len() == 1 { side.to_owned() } else { format!("{side}.{at}") };
                graph.add_output(&name, id);
            }
        }
    }
    // Seeds read back to the values; a hash would not.
    seeds.iter().fold(text::print(&graph), |text, (written, seeded)| text.replace(written, seeded))
}

/// The name of a value: its variable's, or its op's.
fn name(rule: &Rule, draft: &Draft, at: usize) -> String {
    if let Some(var) = draft.operands.iter().position(|bound| *bound == Some(at)) {
        return rule.operand_vars[var].trim_start_matches('?').to_owned();
    }
    for (var, rest) in draft.rests.iter().enumerate() {
        if let Some(place) = rest.as_ref().and_then(|rest| rest.iter().position(|one| *one == at)) {
            return format!("{}{place}", rule.rest_vars[var].name);
        }
    }
    let op = draft.values[at].op.map_or("number", |op| op.name.rsplit('.').next().unwrap_or(op.name));
    format!("{op}_{at}")
}

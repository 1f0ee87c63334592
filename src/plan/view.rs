//! The origins of views. A view is not a step, so its origin is reported at the steps that read it or, if only
//! outputs do, at the step that computes the bytes of the view.

use super::Source;
use crate::graph::{Graph, INPUT, NodeId};

/// Returns the origin of each node, with the origins of views added to those of steps. `runs` says for each node
/// whether it is a step.
pub(super) fn sources(graph: &Graph, sources: &[Source], constant: &[bool], runs: &[bool]) -> Vec<Source> {
    let mut told = sources.to_vec();
    let is_view = |id: NodeId| graph[id].op != INPUT && !constant[id.index()] && !runs[id.index()];
    let mut read = vec![false; graph.len()];
    for (id, node) in graph.nodes().filter(|(id, _)| runs[id.index()]) {
        for view in below(graph, &node.inputs, &is_view).0 {
            read[view.index()] = true;
            if let (Some(one), Some(view)) = (told.get_mut(id.index()), sources.get(view.index())) {
                add(one, view, true);
            }
        }
    }
    for (_, output) in graph.outputs().filter(|(_, id)| is_view(*id) && !read[id.index()]) {
        let (views, computed) = below(graph, &[output], &is_view);
        for view in views.iter().rev().filter(|view| !read[view.index()]) {
            for step in computed.iter().filter(|id| runs[id.index()]) {
                if let (Some(one), Some(view)) = (told.get_mut(step.index()), sources.get(view.index())) {
                    add(one, view, false);
                }
            }
        }
    }
    told
}

/// Returns the views among these values and the views of which those are made, the last one first, and the values on
/// which these views are based.
fn below(graph: &Graph, values: &[NodeId], is_view: &dyn Fn(NodeId) -> bool) -> (Vec<NodeId>, Vec<NodeId>) {
    let (mut views, mut others) = (Vec::new(), Vec::new());
    let mut open = values.to_vec();
    while let Some(id) = open.pop() {
        if !is_view(id) {
            others.push(id);
        } else if !views.contains(&id) {
            views.push(id);
            open.extend(&graph[id].inputs);
        }
    }
    (views, others)
}

/// Adds the origin of a view before or after the origin that is already there.
fn add(one: &mut Source, view: &Source, before: bool) {
    let new = view.imported.iter().filter(|node| !one.imported.contains(node)).cloned();
    let new: Vec<_> = new.collect();
    let at = if before { 0 } else { one.imported.len() };
    one.imported.splice(at..at, new);
    for rule in view.rules.iter().chain(&view.others) {
        if !one.rules.contains(rule) && !one.others.contains(rule) {
            one.others.push(rule.clone());
        }
    }
}

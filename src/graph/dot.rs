//! A graph in the language of Graphviz, which `dot -Tsvg` draws.
//!
//! Each box is an op with its name, attributes and type; inputs and outputs have rounded boxes. A constant has no
//! box of its own, but a line in the boxes of its users, since many boxes of weights would hide the network. Values
//! in another layout than the default one are coloured.

use super::{CONST, Graph, INPUT, NodeId, text};
use std::fmt::Write;

/// Returns the graph as a `digraph`.
pub fn to_dot(graph: &Graph) -> String {
    let mut out = format!("digraph {} {{\n", quote(graph.name()));
    out.push_str("  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n  edge [fontname=\"Helvetica\", fontsize=9];\n");
    for (id, node) in graph.nodes() {
        if inlined(graph, id) {
            continue;
        }
        let style = if node.op == INPUT {
            ", style=\"rounded,filled\", fillcolor=\"#e8f0fe\""
        } else if !node.ty.layout.is_plain() {
            ", style=filled, fillcolor=\"#fef3e0\""
        } else if node.op.is_lowered() {
            ", style=filled, fillcolor=\"#eef6ee\""
        } else {
            ""
        };
        let _ = writeln!(out, "  n{} [label={}{style}];", id.index(), quote(&label(graph, id)));
        for &input in node.inputs.iter().filter(|&&input| !inlined(graph, input)) {
            let _ = writeln!(
                out,
                "  n{} -> n{} [label={}];",
                input.index(),
                id.index(),
                quote(&graph[input].ty.to_string())
            );
        }
    }
    for (position, (name, id)) in graph.outputs().enumerate() {
        let label = quote(name);
        let _ =
            writeln!(out, "  o{position} [label={label}, style=\"rounded,filled\", fillcolor=\"#e8f0fe\"];");
        let _ =
            writeln!(out, "  n{} -> o{position} [label={}];", id.index(), quote(&graph[id].ty.to_string()));
    }
    out.push_str("}\n");
    out
}

/// Returns whether a node is shown only in its users' boxes.
fn inlined(graph: &Graph, id: NodeId) -> bool {
    graph[id].op == CONST && graph.outputs().all(|(_, output)| output != id)
}

fn label(graph: &Graph, id: NodeId) -> String {
    let node = &graph[id];
    let mut label = format!("{}\n{}{}", node.name, node.op, text::print_attrs(node));
    for &input in node.inputs.iter().filter(|&&input| inlined(graph, input)) {
        let _ = write!(label, "\n{}: {}", graph[input].name, graph[input].ty);
    }
    if node.op.is_leaf() {
        let _ = write!(label, "\n{}", node.ty);
    }
    label
}

/// Returns a quoted string of the language: `"` and `\` are escaped, and a line break is `\n`.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

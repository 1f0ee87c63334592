//! A small graph as a drawing in SVG: a box for each value, operands above their users.

use ovolo::graph::{CONST, Graph, INPUT, NodeId, text};
use std::fmt::Write;

/// The width of a letter, the height of a line, and the room around the text of a box, in pixels.
const LETTER: usize = 7;
const LINE: usize = 16;
const ROOM: usize = 8;
/// The distances between boxes beside each other and below each other.
const APART: usize = 16;
const BELOW: usize = 28;
/// The most letters of a line.
const LETTERS: usize = 40;

/// A box.
struct Node {
    lines: Vec<String>,
    /// The left upper corner.
    at: (usize, usize),
    leaf: bool,
}

impl Node {
    fn width(&self) -> usize {
        self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) * LETTER + 2 * ROOM
    }

    fn height(&self) -> usize {
        self.lines.len() * LINE + ROOM
    }
}

/// Returns the drawing.
pub(super) fn svg(graph: &Graph) -> String {
    let mut levels: Vec<usize> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    for (id, node) in graph.nodes() {
        levels.push(node.inputs.iter().map(|input| levels[input.index()] + 1).max().unwrap_or(0));
        nodes.push(Node { lines: lines(graph, id), at: (0, 0), leaf: node.inputs.is_empty() });
    }
    let (width, height) = place(&mut nodes, &levels);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         style=\"max-width: 100%; height: auto\" font-family=\"monospace\" font-size=\"12\" fill=\"none\" stroke=\"currentColor\">\n"
    );
    for (id, node) in graph.nodes() {
        for (at, input) in node.inputs.iter().enumerate() {
            let (from, to) = (&nodes[input.index()], &nodes[id.index()]);
            let (x, y) = (from.at.0 + from.width() / 2, from.at.1 + from.height());
            // Edges meet a box at places of their own, in the order of its operands.
            let (end, top) = (to.at.0 + to.width() * (at + 1) / (node.inputs.len() + 1), to.at.1);
            let _ = writeln!(
                svg,
                "<path d=\"M{x} {y}C{x} {} {end} {} {end} {top}\" opacity=\"0.6\"/>",
                y + BELOW / 2,
                top - BELOW / 2
            );
        }
    }
    let outputs: Vec<NodeId> = graph.outputs().map(|(_, id)| id).collect();
    for (id, _) in graph.nodes() {
        draw(&mut svg, &nodes[id.index()], outputs.contains(&id));
    }
    svg + "</svg>"
}

/// Gives boxes their places, level by level. Returns the size of the drawing.
fn place(nodes: &mut [Node], levels: &[usize]) -> (usize, usize) {
    let most = levels.iter().max().map_or(0, |most| most + 1);
    let rows: Vec<Vec<usize>> =
        (0..most).map(|level| (0..nodes.len()).filter(|at| levels[*at] == level).collect()).collect();
    let wide = |nodes: &[Node], row: &[usize]| row.iter().map(|at| nodes[*at].width() + APART).sum::<usize>();
    let width = rows.iter().map(|row| wide(nodes, row)).max().unwrap_or(0) + APART;
    let mut y = 1;
    for row in &rows {
        let mut x = (width - wide(nodes, row)) / 2 + APART / 2;
        for at in row {
            nodes[*at].at = (x, y);
            x += nodes[*at].width() + APART;
        }
        y += row.iter().map(|at| nodes[*at].height()).max().unwrap_or(0) + BELOW;
    }
    (width, (y + 1).saturating_sub(BELOW))
}

fn draw(svg: &mut String, node: &Node, output: bool) {
    let ((x, y), width, height) = (node.at, node.width(), node.height());
    let (round, thick) = (if node.leaf { height / 2 } else { 2 }, if output { 2 } else { 1 });
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\" stroke-width=\"{thick}\"/>"
    );
    for (at, line) in node.lines.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"currentColor\" stroke=\"none\">{}</text>",
            x + width / 2,
            y + (at + 1) * LINE,
            escaped(line)
        );
    }
}

/// Returns the text of a box: the name and the type of an operand, or an op with its attributes.
fn lines(graph: &Graph, id: NodeId) -> Vec<String> {
    let node = &graph[id];
    let written = text::print_value(graph, id);
    let lines = if node.op == INPUT {
        vec![node.name.to_string(), node.ty.to_string()]
    } else if node.op == CONST {
        // Of a constant with many elements, the name tells more than the first of its values.
        let one = node.ty.shape.count() == 1;
        vec![if one { written } else { node.name.to_string() }, node.ty.to_string()]
    } else {
        let attrs = written.split_once(") {").and_then(|(_, attrs)| attrs.strip_suffix('}'));
        std::iter::once(node.op.to_string()).chain(attrs.map(str::to_owned)).collect()
    };
    lines.into_iter().map(|line| shortened(&line)).collect()
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Returns a text as XML takes it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

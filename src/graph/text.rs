//! The text form of a graph, which can be printed and parsed.
//!
//! Each value has one line, and operands come before their users:
//!
//! ```text
//! graph tiny {
//!   x: f32[1,3,8,8] = input
//!   w: f32[16,3,3,3] = const #5cb2d8f0a1b3c4e6      // too large to show: a hash of its bytes
//!   b: f32[16] = const splat 0.5
//!   s: f32[2] = const [1.0, 2.5]
//!   conv1: f32[1,16,8,8] = conv(x, w, b) {pads: [1,1,1,1], post: <relu>}
//!   return y = conv1
//! }
//! ```
//!
//! - A name needs no quotes if it begins with a letter, `_` or `/`, continues with letters, digits and `_ . / ' -`,
//!   does not contain `//` and is not `return`. Any other name is quoted, with Rust's escapes.
//! - A type is `f32[1,64,56,56]@nChw16c#gpu:0`; layout and device are left out if they are the default ones.
//!   `input` and `const` need their type. For other ops it may be left out in texts written by hand, and is
//!   compared with the inferred type if it is written.
//! - A constant is a list of its elements in row-major order (`const [1.0, 2.0]`), one value for all of them
//!   (`const splat 0.5`), seeded values for tests (`const ~1`, see [`random`]), or a hash of its bytes (`const #…`,
//!   see `content_hash`), whose value the caller gives separately ([`Constants`]).
//! - Attributes that equal their default are left out.
//! - `return x` gives an output the name of its value; `//` begins a comment; `;` ends a statement, as a line break
//!   does, except within brackets.
//!
//! A printed graph parses back to the same graph, given the constants that were printed as hashes: names, types,
//! attributes and bytes are equal, and printing it again gives the same text.

mod build;
mod constants;
mod lex;
mod seeds;
mod syntax;
mod value;

pub use constants::Constants;
pub use seeds::Seeds;
pub(crate) use value::content_hash;
pub use value::random;

use crate::diagnostic::{Diagnostics, Source};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::Ops;
use std::fmt::{self, Write};
use std::path::Path;

/// The endings of files that hold a graph in text form.
const ENDINGS: [&str; 2] = ["ovolo", "txt"];

/// Returns whether the name of a file says that it holds a graph in text form: it ends in `.ovolo` or `.txt`.
pub fn is_named(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Returns the text form of a graph.
///
/// Constants of up to 16 elements, or whose elements are all equal, are written out; others are written as a hash.
pub fn print(graph: &Graph) -> String {
    print_lines(graph, &mut |id| print_node(graph, id))
}

/// Returns the text form of a graph as [`print()`] does, but writes the seeds of constants that have one.
pub fn print_seeded(graph: &Graph, seeds: &Seeds) -> String {
    print_lines(graph, &mut |id| match seeds.of(graph, id) {
        Some(seed) => format!("{}: {} = const ~{seed}", quote(&graph[id].name), graph[id].ty),
        None => print_node(graph, id),
    })
}

/// Returns the text form of a graph with the values of all constants, so that it can be parsed without another file:
/// the seed of a constant that has one, else its elements. `None` if a constant has complex numbers or strings, which the
/// text form cannot list.
pub fn print_in_full(graph: &Graph, seed: &dyn Fn(NodeId) -> Option<u64>) -> Option<String> {
    let mut whole = true;
    let text = print_lines(graph, &mut |id| {
        let Some(tensor) = graph.constant(id) else { return print_node(graph, id) };
        let value = match seed(id) {
            Some(seed) => Some(format!("~{seed}")),
            None => value::print_in_full(tensor),
        };
        whole &= value.is_some();
        let node = &graph[id];
        format!("{}: {} = const {}", quote(&node.name), node.ty, value.unwrap_or_default())
    });
    whole.then_some(text)
}

/// Returns the text form of a graph with these lines for its nodes.
fn print_lines(graph: &Graph, line: &mut dyn FnMut(NodeId) -> String) -> String {
    let mut text = String::from("graph ");
    if !graph.name().is_empty() {
        let _ = write!(text, "{} ", quote(graph.name()));
    }
    text.push_str("{\n");
    for (id, _) in graph.nodes() {
        let _ = writeln!(text, "  {}", line(id));
    }
    for (name, id) in graph.outputs() {
        let value = &graph[id].name;
        let _ = match name == value {
            true => writeln!(text, "  return {}", quote(name)),
            false => writeln!(text, "  return {} = {}", quote(name), quote(value)),
        };
    }
    text.push_str("}\n");
    text
}

/// Returns the line of one node.
pub fn print_node(graph: &Graph, id: NodeId) -> String {
    let node = &graph[id];
    format!("{}: {} = {}", quote(&node.name), node.ty, print_value(graph, id))
}

/// Returns the part of a node's line after the `=`.
pub fn print_value(graph: &Graph, id: NodeId) -> String {
    let node = &graph[id];
    if node.op == INPUT {
        return node.op.to_string();
    }
    if node.op == CONST {
        return format!("const {}", graph.constant(id).map_or_else(|| "?".to_owned(), value::print));
    }
    let operands: Vec<String> = node.inputs.iter().map(|&input| quote(&graph[input].name)).collect();
    format!("{}({}){}", node.op, operands.join(", "), print_attrs(node))
}

/// Returns the attributes that differ from their default, with a space before them, as in ` {axis: 1}`; empty if
/// there are none.
pub(crate) fn print_attrs(node: &Node) -> String {
    let default = |name: &str| node.op.attr(name).and_then(|attr| attr.default.as_ref());
    let written: Vec<String> = node
        .attrs
        .iter()
        .filter(|&(name, value)| default(name) != Some(value))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    if written.is_empty() { String::new() } else { format!(" {{{}}}", written.join(", ")) }
}

/// Returns a name as the text form writes it: quoted if it has to be.
pub fn quote(name: &str) -> String {
    if lex::is_plain(name) { name.to_owned() } else { format!("{name:?}") }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

/// Parses a graph of these ops whose constants are all written out or seeded.
///
/// # Errors
/// All mistakes, with their places.
pub fn parse(ops: &Ops, text: &str) -> Result<Graph, Diagnostics> {
    parse_with(ops, text, &Constants::none())
}

/// Parses a graph. Constants that are written as a hash are looked up by that hash.
///
/// # Errors
/// All mistakes, with their places. A hash is a mistake if none of the given constants has it and the written type.
pub fn parse_with(ops: &Ops, text: &str, constants: &Constants<'_>) -> Result<Graph, Diagnostics> {
    parse_source(ops, &Source::new("graph", text), constants)
}

/// Parses a graph as [`parse_with`] does. Messages use the name of the source, such as the path of its file.
///
/// # Errors
/// As [`parse_with`].
pub fn parse_source(ops: &Ops, source: &Source, constants: &Constants<'_>) -> Result<Graph, Diagnostics> {
    read(ops, source, constants, usize::MAX)
}

/// Parses a graph as [`parse`] does, but refuses values of more than `most` elements, including padding. No larger
/// tensor is allocated meanwhile.
///
/// # Errors
/// As [`parse`], and values that are too large.
pub fn parse_small(ops: &Ops, text: &str, most: usize) -> Result<Graph, Diagnostics> {
    read(ops, &Source::new("graph", text), &Constants::none(), most)
}

fn read(ops: &Ops, source: &Source, constants: &Constants<'_>, most: usize) -> Result<Graph, Diagnostics> {
    let mut found = Diagnostics::new();
    found.add_source(source.clone());
    let (statements, broken) = syntax::parse(&source.text, &ops.families(), &mut found);
    let graph = build::build(ops, statements, broken, constants, most, &mut found);
    found.sort();
    found.into_result(graph)
}

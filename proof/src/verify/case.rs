//! Prints a counterexample as a case file: the text form of a graph with both sides as its outputs.

use super::build::types_differ;
use super::check::{self, Compared, Difference, Fault};
use super::draft::{Draft, Filling};
use super::untyped::Untyped;
use ovolo::graph::{Graph, INPUT, Node, NodeId, text};
use ovolo::rule::Rule;
use ovolo::tensor::{DType, Tensor};
use std::fmt::Write;
use std::sync::Arc;

/// Returns the text of an instance, with the difference in comments. Leaves become constants so that the file
/// runs without inputs; the comments name those that stand for values that are not constant.
pub(super) fn print(rule: &Rule, draft: &Draft, difference: Option<&Difference>) -> String {
    let mut out = format!("// rule {} ({}:{})\n", rule.name, rule.file, rule.line);
    if let Some(Difference { side, fault, at }) = difference {
        let _ = writeln!(out, "// {fault}, at output {side}");
        if let Some((index, left, right)) = at {
            let _ = writeln!(out, "// first at {index:?}: left {left}, right {right}");
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
        // A case file has no inputs, so that it can be evaluated as it is.
        let _ = writeln!(
            out,
            "// constants in this file only; the rule matches values that a run gives: {}",
            variable.join(", ")
        );
    }
    if difference.is_some_and(|one| one.fault == Fault::Values) && has_no_number(draft) {
        let _ = writeln!(
            out,
            "// they differ where a value is infinite or NaN: if the rule is meant for numbers alone, write `assume: \
             [\"finite\"]`; for an operand that is always a weight, the guard `const(?w)`"
        );
    }
    let _ = writeln!(out, "// reproduce with: ovolo rules verify --case FILE");
    out + &text(rule, draft)
}

/// Returns whether an operand holds an infinity or NaN.
fn has_no_number(draft: &Draft) -> bool {
    let leaves = draft.below(&draft.left).into_iter().filter_map(|at| draft.tensor(at));
    leaves
        .filter(|tensor| tensor.ty().dtype.is_float())
        .any(|tensor| tensor.to_f64().iter().any(|one| !one.is_finite()))
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
                op,
                attrs: Arc::new(value.attrs.clone()),
                inputs: value.inputs.iter().filter_map(|input| ids[*input]).collect(),
                name: name.into(),
                ty: value.ty.clone(),
            }),
            (None, Some(tensor)) => {
                let id = graph.add_constant(&name, tensor.clone());
                let written = text::print_node(&graph, id);
                let head = format!("{}: {} = const", text::quote(&graph[id].name), value.ty);
                match value.leaf.as_ref().map(|leaf| &leaf.values) {
                    // The values of few elements are easier to read than their seed.
                    Some(Filling::Seeded(seed)) if written.contains("= const #") => {
                        seeds.push((written, format!("{head} ~{seed}")))
                    }
                    _ if written.contains("= const #") => {
                        seeds.push((written, format!("{head} [{}]", list(tensor))));
                    }
                    _ => {}
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
    // Seeds and lists can be parsed back to the same values; a hash could not.
    seeds.iter().fold(text::print(&graph), |text, (written, seeded)| text.replace(written, seeded))
}

/// The elements of a constant in the text form.
fn list(tensor: &Tensor) -> String {
    let written: Vec<String> = match tensor.to_i64() {
        Some(integers) => integers.iter().map(ToString::to_string).collect(),
        None => tensor.to_f64().iter().map(|value| format!("{value:?}")).collect(),
    };
    written.join(", ")
}

/// The most elements of a value of a case; printed cases are small.
const LARGEST: usize = 1 << 20;

/// Why a graph is not a case of a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoCase {
    /// It has an input.
    #[error("`{name}` is an input, but a case may only have constants")]
    Input {
        /// The name of the input.
        name: String,
    },
    /// It has an output that is no side.
    #[error(
        "unexpected output `{name}`: the outputs of a case are `left` and `right`, or `left.0`, `right.0` and so on"
    )]
    Output {
        /// The name of the output.
        name: String,
    },
    /// It has no sides, or one of them is missing.
    #[error("{left} left and {right} right sides")]
    Sides {
        /// The number of left sides.
        left: usize,
        /// The number of right sides.
        right: usize,
    },
    /// A value is too large, or its op refuses its operands.
    #[error("{why}")]
    Value {
        /// The name of the value.
        name: String,
        /// What is wrong with it.
        why: Untyped,
    },
    /// The sides have no values that could differ.
    #[error("most values of the sides are not finite")]
    NotFinite,
}

/// Evaluates a case file that was printed for a wrong rule. Returns how its outputs `left` and `right`, or
/// `left.N` and `right.N`, differ; `None` if they agree.
///
/// # Errors
/// An error if the graph has inputs or other outputs.
pub fn compare(graph: &Graph) -> Result<Option<String>, NoCase> {
    let mut draft = Draft::empty(LARGEST);
    for (id, node) in graph.nodes() {
        let refused = |why: Untyped| NoCase::Value { name: node.name.to_string(), why };
        match graph.constant(id) {
            Some(value) => {
                let given = value.to_i64().filter(|_| node.ty.dtype == DType::I64).map(Filling::Whole);
                let given = given.unwrap_or_else(|| Filling::Given(value.to_f64()));
                draft.leaf(node.ty.clone(), true, given).map_err(refused)?
            }
            None if node.op == INPUT => return Err(NoCase::Input { name: node.name.to_string() }),
            None => {
                let inputs = node.inputs.iter().map(|input| input.index()).collect();
                draft.op(node.op, (*node.attrs).clone(), inputs).map_err(refused)?
            }
        };
    }
    for (name, id) in graph.outputs() {
        match name.split('.').next() {
            Some("left") => draft.left.push(id.index()),
            Some("right") => draft.right.push(id.index()),
            _ => return Err(NoCase::Output { name: name.to_string() }),
        }
    }
    if draft.left.is_empty() || draft.left.len() != draft.right.len() {
        return Err(NoCase::Sides { left: draft.left.len(), right: draft.right.len() });
    }
    if let Some((side, left, right)) = types_differ(&draft) {
        return Ok(Some(format!("side {side} is of type {left} on the left, of {right} on the right")));
    }
    Ok(match check::compare(&draft) {
        Compared::Agree(_) => None,
        Compared::Vacuous => return Err(NoCase::NotFinite),
        Compared::Differ(difference) | Compared::Strained(difference) => Some(difference.to_string()),
    })
}

/// The name of a value: that of its variable or of its op.
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

//! Lazy updates: the rows of a parameter that a step has not read keep their values, and so do those of its state.
//!
//! The gradient of a table of embeddings consists of rows that are added to zeros. An optimiser with a momentum, a decay
//! or means of gradients changes all other rows as well, by what it keeps of earlier steps. A lazy update is another
//! function than that: the optimiser sees only the rows to which the gradient has added any, each once.

use super::builder::Builder;
use super::error::TrainError;
use super::network::matches;
use super::optimizer::{Given, Next, Optimizer};
use ovolo::attr::{Attr, Attrs};
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::op::Ops;
use ovolo::tensor::DType;
use std::collections::BTreeSet;

/// Returns the trained parameters whose updates are lazy.
///
/// # Errors
/// A pattern matches no trained parameter, or there is no optimiser.
pub(crate) fn chosen(
    patterns: &[String],
    optimizer: Option<&Optimizer>,
    trained: &[String],
) -> Result<BTreeSet<String>, TrainError> {
    for pattern in patterns {
        let wrong = |why: String| Err(TrainError::Lazy { pattern: pattern.clone(), why });
        if optimizer.is_none() {
            return wrong("without an optimiser there are no updates".to_owned());
        }
        if !trained.iter().any(|name| matches(pattern, name)) {
            let some: Vec<&str> = trained.iter().take(8).map(String::as_str).collect();
            return wrong(format!("no trained parameter has such a name; there are {}", some.join(", ")));
        }
    }
    let is_lazy = |name: &&String| patterns.iter().any(|pattern| matches(pattern, name));
    Ok(trained.iter().filter(is_lazy).cloned().collect())
}

/// Adds the next values of the rows of a parameter that its gradient touches, and puts them in place of the old ones.
///
/// # Errors
/// The gradient has other rows than those that are added to zeros, or as [`Optimizer::apply`].
pub(crate) fn apply(
    optimizer: &Optimizer,
    ops: &Ops,
    builder: &mut Builder<'_>,
    given: &Given<'_>,
) -> Result<Next, TrainError> {
    let Rows { positions, rows } = Rows::new(builder, given)?;
    let name = |part: &str| format!("{}.{part}", given.name);
    let size = builder.graph()[given.parameter].ty.shape[0];
    let sizes = Attrs::new().size("size", size);
    let gradient = builder.named(&name("sums"), "sum-equal-rows", sizes, vec![positions, rows])?;
    let mut take = |value: NodeId| {
        let name = format!("{}.rows", builder.graph()[value].name);
        builder.named(&name, "gather-nd", Attrs::new(), vec![value, positions])
    };
    let parameter = take(given.parameter)?;
    let state = given.state.iter().map(|state| take(*state)).collect::<Result<Vec<_>, _>>()?;
    let made =
        optimizer.apply(ops, builder, &Given { parameter, gradient, state: &state, ..given.clone() })?;
    // Rows of one position are the same, so it does not matter which of them is taken.
    let mut put = |value: NodeId, next: NodeId| {
        let name = format!("{}.put", builder.graph()[value].name);
        builder.named(&name, "scatter-nd", Attrs::new(), vec![value, positions, next])
    };
    Ok(Next {
        parameter: put(given.parameter, made.parameter)?,
        state: given
            .state
            .iter()
            .zip(made.state)
            .map(|(state, next)| put(*state, next))
            .collect::<Result<_, _>>()?,
    })
}

/// Rows, and their positions.
struct Rows {
    /// Integers `[n,1]`.
    positions: NodeId,
    /// `[n,…]`, with the last axes of the parameter.
    rows: NodeId,
}

impl Rows {
    /// Returns the rows of which a gradient consists, some of which may have one position.
    fn new(builder: &mut Builder<'_>, given: &Given<'_>) -> Result<Self, TrainError> {
        let mut all = Vec::new();
        let mut open = vec![given.gradient];
        while let Some(id) = open.pop() {
            let node = &builder.graph()[id];
            match node.inputs[..] {
                [first, second] if node.op == "add" => open.extend([second, first]),
                [zeros, positions, rows] if adds_rows(node) && is_zero(builder.graph(), zeros) => {
                    all.push((positions, rows));
                }
                _ => {
                    let why = format!(
                        "its gradient has all rows, not only those that `gather` has taken along its first axis: `{}`, an \
                         op `{}`; use patterns that leave it out",
                        node.name, node.op.name
                    );
                    return Err(TrainError::Lazy { pattern: given.name.to_owned(), why });
                }
            }
        }
        if let [(positions, rows)] = all[..] {
            return Ok(Self { positions, rows });
        }
        let name = |part: &str| format!("{}.{part}", given.name);
        let axis = || Attrs::new().size("axis", 0);
        let wide = |builder: &mut Builder<'_>, id: NodeId| match builder.graph()[id].ty.dtype {
            DType::I64 => Ok(id),
            _ => builder.named(
                &name("positions"),
                "cast",
                Attrs::new().with("to", Attr::DType(DType::I64)),
                vec![id],
            ),
        };
        let positions =
            all.iter().map(|(positions, _)| wide(builder, *positions)).collect::<Result<_, _>>()?;
        let rows = all.iter().map(|(_, rows)| *rows).collect();
        Ok(Self {
            positions: builder.named(&name("positions"), "concat", axis(), positions)?,
            rows: builder.named(&name("added"), "concat", axis(), rows)?,
        })
    }
}

/// Returns whether a node adds rows, each of which has one position.
fn adds_rows(node: &Node) -> bool {
    node.op == "scatter-nd" && node.attrs.expect_str("reduction") == "add"
}

/// Returns whether all elements of a value are known to be zero.
fn is_zero(graph: &Graph, id: NodeId) -> bool {
    let node = &graph[id];
    match (graph.constant(id), &node.inputs[..]) {
        (Some(value), _) => value.to_f64().iter().all(|element| *element == 0.0),
        (None, [one]) if node.op == "expand" => is_zero(graph, *one),
        _ => false,
    }
}

//! Differentiation in reverse: from a number back to the values on which it depends.

use super::apply::gradient;
use super::builder::Builder;
use super::error::TrainError;
use super::table::Table;
use ovolo::attr::Attrs;
use ovolo::graph::NodeId;
use std::collections::BTreeSet;

/// Returns the gradient of a number with respect to each of some values, with the type of the value; `None` for a value
/// on which the number does not depend by differentiable ops. The nodes are added to the graph. Nodes are visited in the
/// reverse of the graph's order, and the gradients of a value that is read several times are added in that order.
///
/// Integers and truth values have no gradient: what the number depends on by way of them alone counts as constant.
///
/// # Errors
/// The loss is not `f32[]`; an op on the way to one of the values has no derivative, or a rule of the table is wrong.
pub(crate) fn gradients(
    table: &Table,
    builder: &mut Builder<'_>,
    loss: NodeId,
    by: &[NodeId],
) -> Result<Vec<Option<NodeId>>, TrainError> {
    let node = &builder.graph()[loss];
    if node.ty.shape.rank() > 0 || !node.ty.dtype.is_float() {
        return Err(TrainError::Loss { name: node.name.to_string(), ty: Box::new(node.ty.clone()) });
    }
    let wanted: BTreeSet<NodeId> = by.iter().copied().collect();
    let nodes: Vec<_> = builder.graph().nodes().map(|(id, node)| (id, node.clone())).collect();
    let mut depends = vec![false; nodes.len()];
    for (id, node) in &nodes {
        let below = wanted.contains(id) || node.inputs.iter().any(|input| depends[input.index()]);
        depends[id.index()] = node.ty.dtype.is_float() && below;
    }
    let mut adjoints: Vec<Option<NodeId>> = vec![None; nodes.len()];
    if depends[loss.index()] {
        adjoints[loss.index()] = Some(builder.number(1.0));
    }
    for (id, node) in nodes.iter().rev() {
        let Some(above) = adjoints[id.index()] else { continue };
        for (operand, input) in node.inputs.iter().enumerate() {
            if !depends[input.index()] {
                continue;
            }
            let part = gradient(table, builder, node, operand, above)?;
            let sum = match adjoints[input.index()] {
                None => part,
                Some(before) => {
                    let name = format!("d.{}", builder.graph()[*input].name);
                    builder.named(&name, "add", Attrs::new(), vec![before, part])?
                }
            };
            adjoints[input.index()] = Some(sum);
        }
    }
    Ok(by.iter().map(|id| adjoints[id.index()]).collect())
}

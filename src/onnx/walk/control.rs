//! `If`: the branch that the condition names is walked in place of the node.

use super::{Binding, Frame, Importer, Kind, Step, Walk, demand};
use crate::onnx::Refusal;
use crate::onnx::document::Operation;
use std::sync::Arc;

/// Enters a branch of an `If`.
pub(super) fn branch(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    let condition = inputs.first().and_then(Option::as_ref).ok_or(Refusal::Operand(0))?;
    let name = if truth(importer, condition, "condition")? { "then_branch" } else { "else_branch" };
    let frame = enter(walk, operation, name, name, importer, Kind::Branch)?;
    Ok(Step::Enter(Box::new(frame)))
}

/// Returns the value of an operand of one boolean.
pub(super) fn truth(importer: &Importer<'_>, value: &Binding, what: &str) -> Result<bool, Refusal> {
    let tensor = demand(importer, value, what)?;
    let one = tensor.to_i64().filter(|list| list.len() == 1).map(|list| list[0] != 0);
    one.ok_or_else(|| Refusal::other(format!("its {what} is {}, not one boolean", tensor.ty())))
}

/// Makes a frame for one of the graphs of an operator, with the graph's constants in scope.
pub(super) fn enter(
    walk: &Walk,
    operation: &Operation,
    attribute: &str,
    suffix: &str,
    importer: &mut Importer<'_>,
    kind: Kind,
) -> Result<Frame, Refusal> {
    let found = operation.bodies.iter().find(|(name, _)| name == attribute);
    let (_, body) =
        found.ok_or_else(|| Refusal::attribute(attribute, "is missing; it should hold a graph"))?;
    let mut weights = importer.builder.weights();
    let constants = body.constants(&mut weights).map_err(|error| Refusal::Tensor(Box::new(error)))?;
    // Graphs of different nodes may call different constants by one name. All turns of a loop share theirs.
    let owner = walk.prefix(operation, attribute);
    let scope = constants.iter().map(|(name, tensor)| {
        let value = crate::onnx::ImportedValue::constant(format!("{owner}/{name}"), tensor.clone());
        (Arc::clone(name), Binding::Tensor(value))
    });
    Ok(Frame {
        body: Arc::clone(body),
        at: 0,
        scope: Arc::new(scope.collect()),
        prefix: walk.prefix(operation, &format!("{suffix}/")),
        kind,
        cut: false,
        fresh: false,
    })
}

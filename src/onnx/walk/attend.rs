//! `FlexAttention`: the graphs that change its scores and its weights are walked in between.

use super::control::enter;
use super::{Binding, Importer, Kind, Step, Walk, refused_node};
use crate::onnx::call::Call;
use crate::onnx::document::Operation;
use crate::onnx::operator::flex;
use crate::onnx::{ImportedValue, OnnxError, Refusal};
use std::sync::Arc;

/// The graphs that change what attention computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The graph `score_mod`.
    Scores,
    /// The graph `prob_mod`.
    Weights,
}

impl Change {
    fn attribute(self) -> &'static str {
        match self {
            Self::Scores => "score_mod",
            Self::Weights => "prob_mod",
        }
    }
}

/// Starts a `FlexAttention`.
pub(super) fn start(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    let tensors = tensors(inputs)?;
    let mut call = Call::new(&operation.node, operation.opset.unwrap_or(1), &tensors, &mut importer.builder);
    let scores = flex::scores(&mut call)?;
    if let Some(other) = call.strangers().first() {
        return Err(Refusal::other(format!("its attribute `{other}` is not known")));
    }
    change(walk, operation, inputs, importer, Change::Scores, scores)
}

/// Leaves one of the graphs, and goes on with the attention.
pub(super) fn leave(walk: &mut Walk, change: Change, importer: &mut Importer<'_>) -> Result<(), OnnxError> {
    let outputs = walk.outputs()?;
    walk.frames.pop();
    let Some(frame) = walk.frames.last() else { return Ok(()) };
    importer.builder.prefix = Arc::clone(&frame.prefix);
    let body = Arc::clone(&frame.body);
    let operation = &body.operations[frame.at];
    let step = go_on(walk, operation, importer, change, &outputs);
    match step.map_err(|why| refused_node(operation, why))? {
        Step::Results(results) => walk.leave(results),
        Step::Enter(frame) => walk.frames.push(*frame),
    }
    Ok(())
}

/// Goes on after one of the graphs, with the output that it gave.
fn go_on(
    walk: &Walk,
    operation: &Operation,
    importer: &mut Importer<'_>,
    done: Change,
    outputs: &[Binding],
) -> Result<Step, Refusal> {
    let [changed] = outputs else {
        let why = format!("has {} outputs, and needs one", outputs.len());
        return Err(Refusal::attribute(done.attribute(), why));
    };
    let names = operation.node.input.iter();
    let inputs: Vec<Option<Binding>> =
        names.map(|name| walk.find(name).filter(|_| !name.is_empty()).cloned()).collect();
    let changed = changed.tensor()?.clone();
    let wanted = [0, 1].map(|at| inputs.get(at).and_then(Option::as_ref));
    if let [Some(q), Some(k)] = wanted {
        let (q, k) = (q.tensor()?.dims(), k.tensor()?.dims());
        if changed.dims() != [q[0], q[1], q[2], k[2]] {
            let why = format!("gives {}, which has another shape than what it takes", changed.ty);
            return Err(Refusal::attribute(done.attribute(), why));
        }
    }
    after(walk, operation, &inputs, importer, done, changed)
}

/// Enters a graph, or goes on at once if the model has none.
fn change(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
    change: Change,
    value: ImportedValue,
) -> Result<Step, Refusal> {
    let attribute = change.attribute();
    let Some((_, body)) = operation.bodies.iter().find(|(name, _)| name == attribute) else {
        return after(walk, operation, inputs, importer, change, value);
    };
    let [input] = &body.inputs[..] else {
        return Err(Refusal::attribute(
            attribute,
            format!("has {} inputs, and needs one", body.inputs.len()),
        ));
    };
    let mut frame = enter(walk, operation, attribute, attribute, importer, Kind::Change(change))?;
    Arc::make_mut(&mut frame.scope).insert(input.name.as_str().into(), Binding::Tensor(value));
    Ok(Step::Enter(Box::new(frame)))
}

/// Computes what follows scores or weights that a graph has changed.
fn after(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
    done: Change,
    value: ImportedValue,
) -> Result<Step, Refusal> {
    let tensors = tensors(inputs)?;
    let mut call = Call::new(&operation.node, operation.opset.unwrap_or(1), &tensors, &mut importer.builder);
    match done {
        Change::Scores => {
            let weights = flex::weights(&mut call, &value)?;
            change(walk, operation, inputs, importer, Change::Weights, weights)
        }
        Change::Weights => Ok(Step::Results(vec![Binding::Tensor(flex::product(&mut call, &value)?)])),
    }
}

fn tensors(inputs: &[Option<Binding>]) -> Result<Vec<Option<ImportedValue>>, Refusal> {
    inputs.iter().map(|input| input.as_ref().map(|input| input.tensor().cloned()).transpose()).collect()
}

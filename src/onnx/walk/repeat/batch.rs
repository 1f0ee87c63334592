//! `Scan` of opset 8, whose operands are batches of sequences. One sequence is scanned after the other.

use super::{Form, Repeat, Source, int, ints};
use crate::attr::Attrs;
use crate::onnx::call::signed;
use crate::onnx::document::Operation;
use crate::onnx::walk::{Binding, Importer, Step, Walk, emit};
use crate::onnx::{ImportedValue, Refusal};
use crate::tensor::Tensor;

/// The sequences of a batch that a `Scan` of opset 8 runs over, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The number of iterations over one sequence.
    pub steps: usize,
    /// What the first iteration over each of the sequences to come takes. The next sequence is the last entry.
    pub starts: Vec<Vec<Binding>>,
    /// What the last iteration over each of the sequences up to now has handed on.
    pub ends: Vec<Vec<Binding>>,
}

/// Starts a `Scan` of opset 8.
pub(super) fn start(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    let node = &operation.node;
    if inputs.first().is_some_and(Option::is_some) {
        return Err(Refusal::other("its sequences have lengths of their own, which ovolo does not support"));
    }
    if ints(node, "directions").contains(&1) {
        return Err(Refusal::attribute("directions", "has a 1, which ovolo does not support for opset 8"));
    }
    let scanned = usize::try_from(int(node, "num_scan_inputs").unwrap_or(0)).unwrap_or(0);
    let states = inputs.len().checked_sub(scanned + 1).filter(|_| scanned > 0).ok_or_else(|| {
        let why = format!("is {scanned}, and the node has {} operands", inputs.len());
        Refusal::attribute("num_scan_inputs", why)
    })?;
    let (mut sources, mut size) = (Vec::new(), None);
    for (at, input) in inputs.iter().enumerate().skip(1 + states) {
        let value = input.as_ref().ok_or(Refusal::Operand(at))?.tensor()?;
        let &[batch, steps, ref rest @ ..] = value.dims() else {
            return Err(Refusal::other(format!("its operand {} is no batch of sequences", value.ty)));
        };
        if batch * steps == 0 || *size.get_or_insert((batch, steps)) != (batch, steps) {
            let why =
                format!("its operand {} has no elements, or differs from another in their number", value.ty);
            return Err(Refusal::other(why));
        }
        let dims: Vec<usize> = std::iter::once(batch * steps).chain(rest.iter().copied()).collect();
        let name = walk.prefix(operation, &format!("sequences-{at}"));
        let attrs = Attrs::new().ints("shape", &signed(&dims));
        let value = Binding::Tensor(emit(importer, &name, "reshape", attrs, &[value])?);
        sources.push(Source { value, axis: 0, reversed: false });
    }
    let (batch, steps) = size.ok_or(Refusal::Operand(0))?;
    let mut starts = vec![Vec::new(); batch];
    for (at, input) in inputs.iter().enumerate().take(1 + states).skip(1) {
        let value = input.as_ref().ok_or(Refusal::Operand(at))?.tensor()?;
        if value.dims().first() != Some(&batch) {
            return Err(Refusal::other(format!("its operand {} is for no batch of {batch}", value.ty)));
        }
        for (sequence, start) in starts.iter_mut().rev().enumerate() {
            let name = walk.prefix(operation, &format!("start-{at}-{sequence}"));
            let index =
                ImportedValue::constant(format!("{name}/number"), Tensor::scalar(signed(&[sequence])[0]));
            let attrs = Attrs::new().int("axis", 0);
            start.push(Binding::Tensor(emit(importer, &name, "gather", attrs, &[value, &index])?));
        }
    }
    let (nodes, outputs) =
        operation.bodies.first().map_or((0, 0), |(_, body)| (body.operations.len(), body.outputs.len()));
    let joins = vec![(0, false); outputs.saturating_sub(states)];
    let repeat = Repeat {
        form: Form::Scan,
        iteration: 0,
        count: Some(batch * steps),
        carried: starts.pop().unwrap_or_default(),
        sources,
        collected: vec![Vec::new(); joins.len()],
        joins,
        batch: Some(Batch { steps, starts, ends: Vec::new() }),
        rolled: importer.rolls(Some(batch * steps), nodes)?,
    };
    Ok(Step::Enter(Box::new(repeat.frame(walk, operation, importer)?)))
}
